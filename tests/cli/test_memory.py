"""`relaxjax memory`: what is kept for the backward part, as a table and as JSON."""

import json
import re
import warnings
from pathlib import Path

import pytest
from training_command import MODEL as BACKBONE

from relaxjax.cli import main
from relaxjax.cli.train_setup import LOSSES

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
    assert "kept: computing it again takes 8.2 kflop" in rows["b"]
    assert rest[-2].startswith("live before  ")
    assert "█" in rest[-2]
    assert rest[-2].endswith("  at most 9.0 KiB")


TWO_LAYERS = """
@R.function
def main(x: R.Tensor((512, 64), "float32"), v: R.Tensor((64, 64), "float32")):
    with R.dataflow():
        a = R.nn.gelu(R.matmul(x, v))
        b = R.nn.gelu(R.matmul(R.sum(a, axis=1, keepdims=True), R.sum(v, axis=0, keepdims=True)))
        loss = R.sum(R.multiply(b, b))
        R.output(loss)
    return loss
"""


def test_the_table_is_sorted_has_no_gaps_and_adds_up(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.py"
    path.write_text(TWO_LAYERS)
    shown = ["memory", str(path), "--policy", "free"]
    assert main([*shown, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    values = record["values"]
    by_order = {}
    for order in ("bytes", "program"):
        assert main([*shown, "--sort", order]) == 0
        lines = capsys.readouterr().out.splitlines()
        start, end = 4, lines.index("", 4)
        rows = [re.split(r"  +", line) for line in lines[start:end]]
        assert all(len(row) == 5 for row in rows)
        by_order[order] = [row[0] for row in rows]
    assert by_order["program"] == [value["name"] for value in values]
    largest_first = sorted(values, key=lambda value: -value["bytes"])
    assert by_order["bytes"] == [value["name"] for value in largest_first]
    assert by_order["bytes"] != by_order["program"]
    assert all(value["needed_by"] for value in values)
    kept, again = (sum(v["bytes"] for v in values if v["kept"] is kept) for kept in (True, False))
    assert kept > 0
    assert again > 0
    found = re.search(
        r"kept: ([\d.]+) KiB in \d values?; .* again: ([\d.]+) KiB in \d", lines[end + 1]
    )
    assert found is not None
    assert [float(size) for size in found.groups()] == pytest.approx(
        [kept / 1024, again / 1024], abs=0.06
    )


def test_what_is_live_at_the_peak(script: str, capsys: Capture) -> None:
    shown = ["memory", script, "--set", "n=64", "--policy", "none"]
    assert main([*shown, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    planned = record["peaks"]["planned"]
    assert sum(record["at_peak"]["bytes"].values()) == max(planned["timeline"])
    assert main(shown) == 0
    text = capsys.readouterr().out
    first = next(iter(record["at_peak"]["bytes"]))
    assert (
        f"at the peak, where `{record['at_peak']['computed']}` is computed: {first} 4.0 KiB" in text
    )


MODEL = SCRIPT.replace("def main", "def net").replace("R.sum(R.exp(c))", "R.exp(c)")


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_loss_of_a_model(loss: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    shown = ["memory", str(path), "--set", "n=64", "--loss", loss]
    assert main(shown) == 0
    text = capsys.readouterr().out
    assert text.startswith("backbone_loss_adjoint: at most ")
    assert "model.py:6" in text
    assert main([*shown, "-f", "net"]) == 0
    assert capsys.readouterr().out == text


def test_what_gives_no_scalar_is_no_loss(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    assert main(["memory", str(path), "-f", "net", "--set", "n=64"]) == 2
    assert capsys.readouterr().err == (
        'relaxjax: error: `net` gives R.Tensor((64, 16), dtype="float32"), but a loss is a scalar: '
        "name a function that gives one by -f, or the loss of a model by --loss, such as --loss "
        "mse\n"
    )


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
    assert (
        "`main_adjoint` cannot be computed within 1 byte, in whatever order"
        in capsys.readouterr().err
    )


def test_a_model_needs_a_loss(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.py"
    path.write_text(BACKBONE)
    assert main(["memory", str(path)]) == 2
    assert "no function `main`, but a model, `backbone`: say by --loss" in capsys.readouterr().err
    path.write_text(
        '@R.function\ndef main(x: R.Tensor(("n", "m"), "float32")):\n    return R.sum(x)\n'
    )
    assert main(["memory", str(path)]) == 2
    told = "the sizes of `m` and `n` are not known: write --set m=32 --set n=32"
    assert told in capsys.readouterr().err


def test_sizes_must_be_given(script: str, capsys: Capture) -> None:
    assert main(["memory", script]) == 2
    assert "the size of `n` is not known: write --set n=32" in capsys.readouterr().err
    assert main(["memory", script, "--set", "n=big"]) == 2
    assert '`--set n=big` gives no size: write "--set n=32"' in capsys.readouterr().err
    assert main(["memory", script, "--set", "n=3", "--set", "n=4"]) == 2
    assert "`--set n=3` and `--set n=4` are two sizes of one dim" in capsys.readouterr().err
    assert main(["memory", script, "--set", "n=2147483648"]) == 2
    message = "`--set n=2147483648` gives a size beyond 2,147,483,647, the largest that JAX counts"
    assert message in capsys.readouterr().err


def test_a_warning_is_one_plain_line(script: str, capsys: Capture) -> None:
    """Python would name the file and the line of ours that warned, and show that line."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert (
            main(["memory", script, "--set", "n=8", "--policy", "offload", "--budget", "1MB"]) == 0
        )
    assert capsys.readouterr().err == (
        "relaxjax: warning: the memory policy `offload` moves nothing on a CPU, whose memory is "
        "the host's: the budget is kept without it\n"
    )
