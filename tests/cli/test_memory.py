"""`relaxjax memory`: what is kept for the backward part, as a table and as JSON."""

import json
from pathlib import Path

import pytest

from relaxjax.cli import main

SCRIPT = """
@R.function
def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 16), "float32")):
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.tanh(a)
        c = R.matmul(b, w)
        loss = R.sum(R.exp(c))
        R.output(loss)
    return loss
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    return str(path)


def test_every_kept_value_has_its_line(script: str, capsys: Capture) -> None:
    assert main(["memory", script, "--set", "n=64", "--policy", "none"]) == 0
    head, by_xla, _, titles, *rest = capsys.readouterr().out.splitlines()
    assert head.startswith("main_adjoint: at most ")
    assert head.endswith(" 0.0% computed again")
    assert by_xla.startswith("by XLA's count ")
    assert " ".join(titles.split()) == "value bytes line needed by what becomes of it"
    rows = {line.split()[0]: line for line in rest if line}
    assert "4.0 KiB" in rows["b"]
    assert "model.py:6" in rows["b"]
    assert "kept: cheaper to keep" in rows["b"]
    assert rest[-2].startswith("live before  ")
    assert "█" in rest[-2]


def test_a_decision_is_turned(script: str, capsys: Capture) -> None:
    shown = ["memory", script, "--set", "n=64", "--json", "--policy", "none"]
    records = []
    for decisions in ([], ["--recompute", "b"], ["--keep", "b"]):
        assert main([*shown, *decisions]) == 0
        records.append(json.loads(capsys.readouterr().out))
    values = [{v["name"]: v for v in record["values"]}["b"] for record in records]
    assert [value["kept"] for value in values] == [True, False, True]
    assert [value["reason"] for value in values] == [
        "cheaper to keep than to compute again",
        "computed again as asked, from a",
        "as asked",
    ]
    planned = records[1]["peaks"]["planned"]
    assert max(planned["timeline"]) == planned["predicted"]


def test_a_budget_has_a_unit(script: str, capsys: Capture) -> None:
    assert main(["memory", script, "--set", "n=64", "--budget", "1MiB"]) == 0
    assert "0.0% computed again" in capsys.readouterr().out
    assert main(["memory", script, "--set", "n=64", "--budget", "1 parsec"]) == 2
    assert (
        '`1 parsec` is no memory budget: write "64MiB", "1.5GiB", "60%"' in capsys.readouterr().err
    )


def test_a_budget_that_cannot_hold(script: str, capsys: Capture) -> None:
    assert main(["memory", script, "--set", "n=64", "--budget", "1"]) == 2
    assert "`main_adjoint` cannot be computed within 1 bytes" in capsys.readouterr().err


def test_sizes_must_be_given(script: str, capsys: Capture) -> None:
    assert main(["memory", script]) == 2
    assert "the size of `n` is not known: write --set n=32" in capsys.readouterr().err
    assert main(["memory", script, "--set", "n=big"]) == 2
    assert '`--set n=big` gives no size: write "--set n=32"' in capsys.readouterr().err
    assert main(["memory", script, "--set", "n=2147483648"]) == 2
    message = "`--set n=2147483648` gives a size beyond 2,147,483,647, the largest that JAX counts"
    assert message in capsys.readouterr().err
