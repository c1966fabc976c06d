"""How much the tests try: a share of long tables in the suite, and all of them where it is full.

RELAXJAX_FULL=1 python3 dev.py test              # hours: `.ci/full` does it
RELAXJAX_FULL=1 python3 dev.py test tests/ops    # a part of it
RELAXJAX_PROGRAMS=2000 python3 dev.py test -k random_programs
"""

import os
from collections.abc import Iterable
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

FULL = bool(os.environ.get("RELAXJAX_FULL"))
# How many more random programs are tried where all is.
_MORE = 50


def share(items: Iterable[T], one_in: int, of: str = "") -> list[T]:
    """One in so many of the rows of a table, each time the same; the first, if they are few.

    Tables `of` other things have other rows.
    """
    rows = list(items)
    if FULL:
        return rows
    return [row for row in rows if crc32(f"{of} {row}".encode()) % one_in == 0] or rows[:1]


def how_many(few: int, many: int | None = None) -> int:
    """How many random programs to try, where a few are enough for a test among others.

    Of those that take long there are very few among others, and `many` where all is tried.
    """
    more = _MORE * few if many is None else many
    return int(os.environ.get("RELAXJAX_PROGRAMS", more if FULL else few))
