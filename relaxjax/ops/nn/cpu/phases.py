"""Transposes of convolutions by single channels, as sums of slices for each phase of the strides.

Results that lie a stride apart are one phase: the same places of the kernel reach them, each from
as many elements of the data, one after the other.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from relaxjax.ops.nn.windows import Windows

from .shifts import added_once


@dataclass(frozen=True, slots=True)
class Phase:
    """Results along an axis, and for each place of the kernel where its slice of the data begins.

    A slice may begin before the data, and end behind it.
    """

    first: int
    count: int
    starts: Mapping[int, int]


def phases_of(size: int, stride: int, dilation: int, low: int, results: int) -> list[Phase]:
    """The phases of so many results, of a kernel of `size` places.

    Element n of the data reaches the result n * stride + place * dilation - low.
    """
    phases = []
    for rest in range(stride):
        begin = -((rest - low) // stride)
        first = begin * stride + rest - low
        count = -((first - results) // stride)
        starts = {
            place: begin - (place * dilation - rest) // stride
            for place in range(size)
            if (place * dilation - rest) % stride == 0
        }
        if starts and count > 0:
            phases.append(Phase(first, count, starts))
    return phases


def put_back_by_phases(data: Any, vectors: Any, windows: Windows, lengths: Sequence[int]) -> Any:
    """The transpose of a convolution over `windows`, of results of some lengths.

    `vectors` is the kernel at each of its places. All terms are slices of the data, padded once:
    what the data is made of is not computed for each of them again.
    """
    lows = [low for low, _ in windows.pads]
    sizes = (windows.size, windows.strides, windows.dilation, lows, lengths)
    along = [phases_of(*one) for one in zip(*sizes, strict=True)]
    shape = list(data.shape)
    for axis, length in zip(windows.axes, lengths, strict=True):
        shape[axis] = length
    if not all(along):
        return jnp.zeros(shape, data.dtype)
    ones, sides = (1,) * len(along), tuple(map(_margins, along, windows.counts))
    moved = replace(windows, dilation=ones, pads=sides)
    padded = moved.padded(data, 0)

    def total(phases: Sequence[Phase]) -> Any:
        slices = replace(moved, strides=ones, counts=tuple(phase.count for phase in phases))
        terms = []
        for place in itertools.product(*(phase.starts for phase in phases)):
            starts = [
                low + phase.starts[index]
                for phase, index, (low, _) in zip(phases, place, sides, strict=True)
            ]
            terms.append(slices.at(padded, starts) * vectors[place])
        return moved.back(added_once(terms), [p.first for p in phases], shape)

    return functools.reduce(jnp.add, map(total, itertools.product(*along)))


def _margins(phases: Sequence[Phase], length: int) -> tuple[int, int]:
    """How far slices reach beyond the data, before and behind it."""
    starts = [start for phase in phases for start in phase.starts.values()]
    ends = [start + phase.count for phase in phases for start in phase.starts.values()]
    return max(0, -min(starts)), max(0, max(ends) - length)
