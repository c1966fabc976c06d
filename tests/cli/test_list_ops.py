"""`relaxjax ops`: the table of operators."""

import json

import pytest

from relaxjax.cli import main
from relaxjax.cli.operator_rules import record
from relaxjax.ir.op import OPS


def test_the_table_has_signatures_summaries_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    text = capsys.readouterr().out
    assert "relax.matmul(x1, x2, out_dtype=None)\n    Product of matrices" in text
    assert (
        "relax.floor(x)\n    Rounded down.\n"
        "    lower, gradient zero, jvp zero, layout agnostic, precision follow, "
        "fusion elementwise\n"
        "    cost: One flop for each element of the result.\n"
        "    facts: elementwise, idempotent, jumps\n"
    ) in text
    assert "relax.tril(x, k=0)" in text
    assert "relax.print(*values, format='')" in text
    assert "impure" in text
    assert text.splitlines()[-1].startswith(f"{sum(n.startswith('relax.') for n in OPS)} operators")


def test_a_pattern_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "relax.nn.conv?d"]) == 0
    text = capsys.readouterr().out
    assert text.count("relax.nn.conv") == 3
    assert "3 operators, 3 of them with a gradient rule" in text


def test_several_patterns_choose_what_matches_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "relax.nn.conv?d", "relax.add", "*.nn.conv2d"]) == 0
    text = capsys.readouterr().out
    assert "relax.add(x1, x2)" in text
    assert "4 operators, 4 of them with a gradient rule" in text


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("softplus", 'there is no operator `softplus`: try "*softplus*"'),
        ("sotfmax", "there is no operator `sotfmax`; did you mean `*.softmax` or"),
        ("relax.nn.sotfmax", "there is no operator `relax.nn.sotfmax`; did you mean"),
    ],
)
def test_a_pattern_that_matches_nothing(
    pattern: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ops", "relax.add", pattern]) == 2
    assert message in capsys.readouterr().err


def test_json_says_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--json"]) == 0
    table = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(table) == {name for name in OPS if name.startswith("relax.")}
    add, norm = table["relax.add"], table["relax.nn.batch_norm"]
    assert add["facts"]["unit"] == 0
    assert add["pure"] is True
    assert norm["rules"]["training_form"] == "yes"
    assert add["rules"]["training_form"] is None
    assert norm["parameters"][5] == {"name": "axis", "kind": "attribute"}
    assert norm["parameters"][6] == {"name": "epsilon", "kind": "attribute", "default": "1e-05"}
    assert table["relax.equal"]["rules"]["gradient"] == "zero"
    cost = table["relax.matmul"]["rules"].pop("cost")
    assert cost.startswith("A multiplication and an addition for each element")
    assert table["relax.matmul"]["rules"] == {
        "lower": "yes",
        "gradient": "yes",
        "jvp": "by JAX",
        "training_form": None,
        "decompose": None,
        "layout": "opaque",
        "precision": "always",
        "fusion": "out_fusable",
    }
    assert table["relax.exp"]["rules"]["jvp"] == "by gradient"
    assert table["relax.scan"]["rules"]["jvp"] is None
    assert table["relax.to_vdevice"]["rules"]["jvp"] == "yes"


def test_every_operator_is_documented() -> None:
    """In a sentence of one line, and each of its rules for the cost too."""
    for entry in map(record, OPS.values()):
        first = entry["doc"].partition("\n")[0]
        assert first.endswith((".", ":")), entry["name"]
        assert len(first) <= 120, entry["name"]
        if entry["name"].startswith("relax."):
            assert (entry["rules"]["cost"] or "").endswith("."), entry["name"]
