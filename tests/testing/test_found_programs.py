"""Programs that `dev.py fuzz` took to come out wrong, each as small as it could be made.

The gradients of some were wrong; of others, what they were compared with was.
"""

import json
from pathlib import Path

import pytest
from norm_networks import arguments
from parsing import parse_module

from relaxjax.testing import Way, compare_compilations

FOUND = sorted((Path(__file__).parent / "found").glob("*.txt"))

pytestmark = pytest.mark.as_users


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_program_that_came_out_wrong_comes_out_right(path: Path) -> None:
    text = path.read_text()
    mod = parse_module(text)
    lines = [line[2:] for line in text.splitlines() if line.startswith(("# seed: ", "# way: "))]
    head = {name: json.loads(value) for name, value in (line.split(": ", 1) for line in lines)}
    ways = [Way(**head["way"])] if "way" in head else []
    compare_compilations(mod, "main", arguments(mod, head["seed"]), ways=ways)
