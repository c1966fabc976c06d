"""Where values lie within one block of memory, and so how large that is."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

# When something is first and last needed, and its bytes.
Life: TypeAlias = tuple[int, int, int]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def heap_size(lives: Iterable[Life]) -> int:
    """The bytes of a block for all of them, as XLA finds it.

    The largest are placed first, or those that live longest, whichever takes less, and each in the
    smallest gap between those that live when it does.
    """
    known = list(lives)
    return min(_size(sorted(known, key=order)) for order in (_by_size, _by_length))


_Order: TypeAlias = Callable[[Life], tuple[int, ...]]


def _by_size(life: Life) -> tuple[int, ...]:
    start, end, size = life
    return -size, start - end, start


def _by_length(life: Life) -> tuple[int, ...]:
    start, end, size = life
    return start - end, -size, start


def _size(lives: Sequence[Life]) -> int:
    whole = 0
    # From where to where each lies that is placed, by its place, and when it lives.
    lows, highs, starts, ends = np.zeros((4, len(lives)), np.int64)
    for count, (start, end, size) in enumerate(lives):
        there = np.flatnonzero((starts[:count] <= end) & (start <= ends[:count]))
        low = _gap(size, lows[there], highs[there])
        at = int(np.searchsorted(lows[:count], low, side="right"))
        for row, number in ((lows, low), (highs, low + size), (starts, start), (ends, end)):
            row[at + 1 : count + 1] = row[at:count]
            row[at] = number
        whole = max(whole, low + size)
    return whole


def _gap(size: int, lows: Numbers, highs: Numbers) -> int:
    """Where the smallest gap is that has room for so many bytes, else where all are past."""
    if not len(lows):
        return 0
    done = np.concatenate(([0], np.maximum.accumulate(highs)))
    gaps = lows - done[:-1]
    fitting = np.flatnonzero(gaps >= size)
    best = fitting[np.argmin(gaps[fitting])] if len(fitting) else -1
    return int(done[best])
