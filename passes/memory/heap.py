"""Where values lie within one block of memory, and so how large that is."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

# When something is first and last needed, and its bytes.
Life: TypeAlias = tuple[int, int, int]


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
    placed: list[tuple[int, int, int, int]] = []  # from where to where, and when
    for start, end, size in lives:
        taken = sorted(one for one in placed if one[2] <= end and start <= one[3])
        at = _gap(size, taken)
        placed.append((at, at + size, start, end))
        whole = max(whole, at + size)
    return whole


def _gap(size: int, taken: Iterable[tuple[int, ...]]) -> int:
    """Where the smallest gap is that has room for so many bytes, else where all are past."""
    best, least, done = None, 0, 0
    for low, high, *_ in taken:
        if low - done >= size and (best is None or low - done < least):
            best, least = done, low - done
        done = max(done, high)
    return done if best is None else best
