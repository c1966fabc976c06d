"""Programs that `dev.py fuzz` found to come out wrong, each as small as it could be made."""

import json
from pathlib import Path

import pytest
from norm_networks import arguments

from relaxjax.ir.module import IRModule
from relaxjax.script import from_source
from relaxjax.testing import Way, compare_compilations

FOUND = sorted((Path(__file__).parent / "found").glob("*.txt"))

pytestmark = pytest.mark.as_users


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_program_that_came_out_wrong_comes_out_right(path: Path) -> None:
    text = path.read_text()
    mod = from_source(text)
    assert isinstance(mod, IRModule)
    head = dict(line[2:].split(": ", 1) for line in text.splitlines()[:2])
    args = arguments(mod, json.loads(head["seed"]))
    compare_compilations(mod, "main", args, ways=[Way(**json.loads(head["way"]))])
