"""`relaxjax passes`: the list of passes, for people and for programs."""

import json

import pytest

from relaxjax.cli import main
from relaxjax.passes.infrastructure.base import FACTORIES


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(FACTORIES)
    (line,) = [line for line in lines if line.startswith("Normalize ")]
    assert line.split(maxsplit=2)[1:] == ["1", FACTORIES["Normalize"].summary]


def test_a_part_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes", "Norm*", "*Layout"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["AlterOpLayout", "ConvertLayout", "Normalize", "NormalizeGlobalVar"]
    assert main(["passes", "Layout"]) == 2
    assert 'there is no pass `Layout`: try "*Layout*"' in capsys.readouterr().err
    assert main(["passes", "Normalise"]) == 2
    assert "there is no pass `Normalise`; did you mean `Normalize`" in capsys.readouterr().err


def test_the_list_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes", "--json"]) == 0
    records = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert records.keys() == FACTORIES.keys()
    assert records["DeadCodeElimination"] == {
        "name": "DeadCodeElimination",
        "opt_level": 1,
        "kind": "module",
        "required": [],
        "summary": FACTORIES["DeadCodeElimination"].summary,
        "options": [
            {
                "name": "entry_functions",
                "type": "collections.abc.Sequence[str | relaxjax.ir.expr.GlobalVar] | None",
                "default": "None",
            },
            {"name": "inline_once", "type": "bool", "default": "False"},
        ],
    }
    (name, *_) = records["Gradient"]["options"]
    assert "default" not in name


def test_every_pass_is_documented() -> None:
    """In one sentence of one line."""
    for name, factory in FACTORIES.items():
        assert factory.summary.endswith("."), name
        assert len(factory.summary) <= 100, name


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes", "--markdown"]) == 0
    page = capsys.readouterr().out
    summary = FACTORIES["Normalize"].summary
    assert f"| [Normalize](#normalize) | 1 | {summary} |\n" in page
    assert f"\n## Normalize\n\n`Normalize()`, level 1.\n\n{summary}\n" in page
    assert "\n## DeadCodeElimination\n\n`DeadCodeElimination(entry_functions=None" in page
    assert "\n## Gradient\n\n`Gradient(func_name, " in page
