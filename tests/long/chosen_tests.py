"""A plugin of pytest that runs chosen tests, in an order: `RELAXJAX_CHOSEN` names a file of them.

It is given for each file of tests its place in the order, and the seconds of each chosen case, or
nothing where all are. `RELAXJAX_STAGE` tells whether they are to be of the suite or of what is left
to the full tests.
"""

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from suite_part import left_out

ROOT = Path(__file__).parents[2]


@cache
def _chosen() -> dict[str, tuple[int, dict[str, float] | None]]:
    path = Path(os.environ["RELAXJAX_CHOSEN"])
    return {file: (rank, cases) for file, (rank, cases) in json.loads(path.read_text()).items()}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if not collection_path.is_file():
        return None
    return collection_path.relative_to(ROOT).as_posix() not in _chosen() or None


@pytest.hookimpl(wrapper=True)  # what is left out and what is fast is told by whole tables
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Keep what is chosen: the nearest first, and of these what takes least time."""
    found, left = list[tuple[int, float, pytest.Item]](), left_out(items)
    yield
    stage = os.environ["RELAXJAX_STAGE"]
    for item in items:
        if stage in ("folder", "suite", "full") and (item in left) != (stage == "full"):
            continue
        file, _, case = item.nodeid.partition("::")
        rank, cases = _chosen()[file]
        if cases is None or case in cases:
            found.append((rank, 0.0 if cases is None else cases[case], item))
    kept = [item for *_, item in sorted(found, key=lambda one: one[:2])]
    config.hook.pytest_deselected(items=list(set(items).difference(kept)))
    items[:] = kept
