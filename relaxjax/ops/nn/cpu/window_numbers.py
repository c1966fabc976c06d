"""Elements of windows by their numbers, where few windows slide over few places.

The numbers are known before the program runs, so that elements are copied by one gather for each
row of a window, and put back by one for each place. Slices would be more: XLA writes out each of
those that stand side by side by a kernel of its own, and asks for the borders of each of those that
are added up.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ops.nn.windows import Windows

_FEW = 4096  # numbers that a program holds for a tensor


def beside(windows: Windows, padded: Any, channels_last: bool) -> Any:
    """What windows cover of (batch, *spatial, channels): (batch, windows, places, channels).

    Or with the places behind the channels.
    """
    batch, *lengths, channels = padded.shape
    count, places = math.prod(windows.counts), windows.places()
    axis = 2 if channels_last else 3
    rows = _rows(windows)
    if count * len(places) > _FEW or len(rows) == 1:
        slices = [windows.at(padded, place) for place in places]
        return jnp.stack([lax.reshape(part, (batch, count, channels)) for part in slices], axis)
    flat = lax.reshape(padded, (batch, math.prod(lengths), channels))
    gathered = [
        _gathered(flat, np.stack([_covered(windows, place, lengths) for place in row], -1))
        for row in rows
    ]
    parts = gathered if channels_last else [jnp.swapaxes(part, 2, 3) for part in gathered]
    return lax.concatenate(parts, axis)


def _rows(windows: Windows) -> list[list[tuple[int, ...]]]:
    """The places of a window, row by row.

    What one gather alone reads, XLA would compute for each element anew; what several do, once.
    """
    by_row = itertools.groupby(windows.places(), lambda place: place[0])
    return [list(row) for _, row in by_row]


def can_be_put_back(windows: Windows, lengths: Sequence[int]) -> bool:
    """Whether several places of windows reach elements of so long axes, and few in all."""
    places = math.prod(windows.size)
    return places > 1 and places * math.prod(lengths) <= _FEW


def put_back(windows: Windows, parts: Mapping[tuple[int, ...], Any], lengths: Sequence[int]) -> Any:
    """The sum of (batch, *counts, channels) for each place, where they lie along axes so long."""
    batch, *counts, channels = next(iter(parts.values())).shape

    def moved(place: tuple[int, ...], part: Any) -> Any:
        numbers, is_reached = _reaching(windows, place, lengths)
        found = _gathered(lax.reshape(part, (batch, math.prod(counts), channels)), numbers)
        return jnp.where(is_reached[:, None], found, 0)

    out = functools.reduce(jnp.add, (moved(*one) for one in parts.items()))
    return lax.reshape(out, (batch, *lengths, channels))


def _gathered(flat: Any, numbers: Any) -> Any:
    """Elements of the axis in the middle, by their numbers."""
    batch, _, channels = flat.shape
    return lax.gather(
        flat,
        numbers[..., None].astype(np.int32),
        lax.GatherDimensionNumbers((0, numbers.ndim + 1), (1,), (1,)),
        (batch, 1, channels),
        mode="promise_in_bounds",
    )


def _covered(windows: Windows, place: Sequence[int], lengths: Sequence[int]) -> Any:
    """The numbers of what the windows cover at a place of them, in padded data."""
    along = [
        np.arange(count) * stride + inside * dilation
        for inside, count, stride, dilation in zip(
            place, windows.counts, windows.strides, windows.dilation, strict=True
        )
    ]
    return np.ravel_multi_index(np.ix_(*along), lengths).ravel()


def _reaching(windows: Windows, place: Sequence[int], lengths: Sequence[int]) -> tuple[Any, Any]:
    """For each element the number of the window that covers it at a place, if there is one."""
    along, is_one = [], []
    for inside, length, (low, _), dilation, stride, count in zip(
        place, lengths, windows.pads, windows.dilation, windows.strides, windows.counts, strict=True
    ):
        steps, rests = np.divmod(np.arange(length) + low - inside * dilation, stride)
        along.append(steps)
        is_one.append((rests == 0) & (steps >= 0) & (steps < count))
    numbers = np.ravel_multi_index(np.ix_(*along), windows.counts, mode="clip")
    return numbers.ravel(), functools.reduce(np.logical_and.outer, is_one).ravel()
