"""Of long tables the suite tries some rows, always the same, as `long_tables.txt` says.

A table is long where its rows together take more than a small share of the suite, and one row in n
is tried where they take n * n times that. Rows that stand side by side are alike, such as the
samples of an operator: one of each n neighbours is tried, so that all kinds have their share. The
list is made anew from the durations of a run:

    RELAXJAX_ROWS=all python -m pytest -n 2 --junitxml=durations.xml
    python tests/long_tables.py durations.xml > tests/long_tables.txt
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from zlib import crc32

import pytest
from fast_part import TESTS, durations, test_of

LISTED = TESTS / "long_tables.txt"
_MOST = 1 / 8000  # of the whole run, for the rows of one table; of the dearest somewhat more
_LEAST_ROWS = 3  # fewer are no table
_THINNEST = 14  # one row in so many is tried of the largest tables too, those of all operators
# Each row of these is what users run, or looks for what is new, or is another kind of program whose
# gradient nothing else looks at.
_WHOLE = (
    "checkout/test_docs.py",
    "examples/test_examples.py",
    "explorer/test_explorer_in_browser.py",
    "ops/test_rule_decisions.py",
    "passes/differentiation/",
)

Test = tuple[str, str]  # a file and a name


def one_in() -> dict[Test, int]:
    """One row in how many is tried, of each long table."""
    lines = (line.split() for line in LISTED.read_text().splitlines())
    return {(path, name): int(number) for path, name, number in lines}


def rows_left_out(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Those of the items that are rows of long tables which are not tried."""
    listed, rows = one_in(), defaultdict[Test, list[pytest.Item]](list)
    for item in items:
        if test_of(item) in listed:
            rows[test_of(item)].append(item)
    out: set[pytest.Item] = set()
    for test, table in rows.items():
        kept = set(chosen([item.name for item in table], listed[test]))
        out.update(item for item in table if item.name not in kept)
    return out


def chosen(rows: Sequence[str], number: int) -> Iterator[str]:
    """One of each so many neighbours, by its name: each n-th may fall in step with what varies."""
    for start in range(0, len(rows), number):
        yield min(rows[start : start + number], key=lambda row: crc32(row.encode()))


def listing(junit: Path) -> str:
    """The list of the long tables of a run, a line for each."""
    seconds = durations(junit)
    most = _MOST * sum(map(sum, seconds.values()))
    lines = list[str]()
    for (path, name), times in sorted(seconds.items()):
        number = min(round(sqrt(sum(times) / most)), len(times), _THINNEST)
        if number > 1 and len(times) >= _LEAST_ROWS and not path.startswith(_WHOLE):
            lines.append(f"{path} {name} {number}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(listing(Path(sys.argv[1])))
