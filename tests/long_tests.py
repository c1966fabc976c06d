"""Long tests whose every line others execute are left to the full tests, as `long_tests.txt` says.

What stays in the suite executes all that they do, each line at least twice. The list is made anew
from what a run noted, with Python 3.12 or later:

    python3 dev.py mutants record
    python tests/long/choose_long_tests.py > tests/long_tests.txt
"""

from functools import cache

import pytest
from fast_part import TESTS, path_of

LISTED = TESTS / "long_tests.txt"


@cache
def long_tests() -> frozenset[str]:
    """The names of the tests, each behind its file: `ops/test_x.py::test_y[row]`."""
    return frozenset(LISTED.read_text().splitlines())


def is_long(item: pytest.Item) -> bool:
    return f"{path_of(item.path)}::{item.name}" in long_tests()
