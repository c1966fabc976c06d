"""`relaxjax ops`: the table of operators."""

import json

import pytest

from relaxjax.cli import main
from relaxjax.ir.registry import OPS


def test_the_table_has_signatures_summaries_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    text = capsys.readouterr().out
    assert "relax.matmul(x1, x2, out_dtype=None)\n    Product of matrices" in text
    assert "relax.floor(x)\n    Rounded down.\n    lower, gradient zero, precision follow" in text
    assert "relax.tril(x, k=0)" in text
    assert "relax.print(*values, format='')" in text
    assert "impure" in text
    assert text.splitlines()[-1].startswith(f"{sum(n.startswith('relax.') for n in OPS)} operators")


def test_a_pattern_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "relax.nn.conv?d"]) == 0
    text = capsys.readouterr().out
    assert text.count("relax.nn.conv") == 3
    assert "3 operators, 3 of them with a gradient rule" in text


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
