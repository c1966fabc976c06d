"""What `python3 dev.py test` tries: all but what `.ci/full` alone tries, always the same.

It leaves out rows of long tables (`long_tables.py`), and long tests whose lines others execute
(`long_tests.py`). All is tried where somebody asks for a file or a name, with RELAXJAX_ROWS=all,
and where the tests are full.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from full import FULL
from long_tables import rows_left_out
from long_tests import is_long


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out of the items those that are left to the full tests, unless all are to be tried."""
    if has_all(config):
        return
    out = left_out(items)
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]


def left_out(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Those of the items that are left to the full tests."""
    return rows_left_out(items) | set(filter(is_long, items))


def has_all(config: pytest.Config) -> bool:
    """Whether this run is to try all of what it is asked for."""
    narrow = not all(Path(config.invocation_params.dir, arg).is_dir() for arg in config.args)
    return bool(FULL or os.environ.get("RELAXJAX_ROWS") == "all" or config.option.keyword or narrow)
