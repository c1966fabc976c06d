"""Windows that slide along some axes of an array, place by place inside them.

One place of all windows is one strided slice of the whole array. Reductions and products over the
places are sums of such slices, which XLA fuses; its own operators for windows are often slower.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

_MANY_PLACES = 64


@dataclass(frozen=True)
class Windows:
    """The windows along `axes`: how large, how far apart, and how many."""

    axes: tuple[int, ...]
    size: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    counts: tuple[Any, ...]
    sliced: bool = True  # else everything about them is left to XLA

    def along(self, ndim: int, values: Sequence[Any], other: Any) -> list[Any]:
        """Values for the axes of the windows, and `other` for the other axes."""
        given = dict(zip(self.axes, values, strict=True))
        return [given.get(axis, other) for axis in range(ndim)]

    def swapped(self, axes: Sequence[int]) -> "Windows":
        """The windows whole, at one place of the result after the other: roles are swapped."""
        return Windows(tuple(axes), self.counts, self.dilation, self.pads, self.strides, self.size)

    def padded(self, x: Any, value: Any) -> Any:
        if not self.has_pads:
            return x
        sides = [(low, high, 0) for low, high in self.pads]
        return lax.pad(x, jnp.asarray(value, x.dtype), self.along(x.ndim, sides, (0, 0, 0)))

    def without_rest(self, shape: Sequence[Any]) -> "Windows":
        """The same windows over data of a shape, without padding that strides leave over."""
        pads = []
        for index, (low, high) in enumerate(self.pads):
            length, steps = shape[self.axes[index]], self.counts[index] - 1
            inside = (self.size[index] - 1) * self.dilation[index] + 1
            rest = length + low + high - steps * self.strides[index] - inside
            pads.append((low, high - rest if isinstance(rest, int) else high))
        return replace(self, pads=tuple(pads))

    def unpadded(self, x: Any) -> Any:
        if not self.has_pads:
            return x
        sides = [(-low, -high, 0) for low, high in self.pads]
        return lax.pad(x, jnp.zeros((), x.dtype), self.along(x.ndim, sides, (0, 0, 0)))

    def padded_shape(self, shape: Sequence[Any]) -> list[Any]:
        more = self.along(len(shape), [low + high for low, high in self.pads], 0)
        return [length + extra for length, extra in zip(shape, more, strict=True)]

    @property
    def has_pads(self) -> bool:
        return any(map(any, self.pads))

    @property
    def left_to_xla(self) -> bool:
        """Whether slices are not wanted, or many, or of windows that a symbol counts.

        Where the places of a window lie apart they are wanted: JAX has no derivative of XLA's then.
        """
        is_wanted = self.sliced or set(self.dilation) != {1}
        return not is_wanted or not self.are_counted or self.has_many_places

    @property
    def are_counted(self) -> bool:
        return all(isinstance(count, int) for count in self.counts)

    @property
    def has_many_places(self) -> bool:
        return math.prod(self.size) > _MANY_PLACES

    def by_axis(self) -> list["Windows"]:
        """The windows along each axis alone: together, one after the other, they are these."""
        along = zip(
            self.axes, self.size, self.strides, self.pads, self.dilation, self.counts, strict=True
        )
        return [
            Windows((axis,), (size,), (stride,), (pads,), (gap,), (count,), self.sliced)
            for axis, size, stride, pads, gap, count in along
        ]

    def places(self) -> list[tuple[int, ...]]:
        """The places inside a window, row by row."""
        return list(itertools.product(*map(range, self.size)))

    def at(self, padded: Any, place: Sequence[int]) -> Any:
        """The element at one place of every window."""
        starts = [inside * d for inside, d in zip(place, self.dilation, strict=True)]
        stops = [
            start + (count - 1) * stride + 1
            for start, count, stride in zip(starts, self.counts, self.strides, strict=True)
        ]
        ends = self.along(padded.ndim, stops, None)
        return lax.slice(
            padded,
            self.along(padded.ndim, starts, 0),
            [n if end is None else end for n, end in zip(padded.shape, ends, strict=True)],
            self.along(padded.ndim, self.strides, 1),
        )

    def at_unpadded(self, x: Any, place: Sequence[int]) -> Any:
        """As `at` of `x` padded with zeros, which is not written out. Lengths are known."""
        starts, ends, sides = [0] * x.ndim, list(x.shape), [(0, 0, 0)] * x.ndim
        of_axes = zip(
            self.axes, place, self.dilation, self.pads, self.strides, self.counts, strict=True
        )
        for axis, inside, gap, (low, _), stride, count in of_axes:
            start = inside * gap - low
            first = min(max(0, -(start // stride)), count)
            behind = max(first, min(count, (x.shape[axis] - 1 - start) // stride + 1))
            if first == behind:
                starts[axis] = ends[axis] = 0
            else:
                starts[axis], ends[axis] = first * stride + start, (behind - 1) * stride + start + 1
            sides[axis] = (first, count - behind, 0)
        inside = lax.slice(x, starts, ends, self.along(x.ndim, self.strides, 1))
        return lax.pad(inside, jnp.zeros((), x.dtype), sides) if any(map(any, sides)) else inside

    def row_by_row(self, padded: Any, of_row: Callable[["Windows", Any], Any]) -> Any:
        """What `of_row` gives for the places of each row, one row after the other in a loop.

        It takes the windows of one row and the data that these reach, and gives an array for each
        place along its first axis; so does this, for all places.
        """
        axis, (first, *_), (gap, *_) = self.axes[0], self.size, self.dilation
        reach = (self.counts[0] - 1) * self.strides[0] + 1
        one = replace(self, size=(1, *self.size[1:]))

        def step(_: None, start: Any) -> tuple[None, Any]:
            return None, of_row(one, lax.dynamic_slice_in_dim(padded, start, reach, axis))

        _, rows = lax.scan(step, None, jnp.arange(first) * gap)
        return lax.reshape(rows, (first * rows.shape[1], *rows.shape[2:]))

    def back(self, values: Any, place: Sequence[int], shape: Sequence[Any]) -> Any:
        """Values, one for each window, at one place of them in zeros of the padded shape."""
        sides = []
        for axis, inside, step, stride in zip(
            self.axes, place, self.dilation, self.strides, strict=True
        ):
            start, reach = inside * step, (values.shape[axis] - 1) * stride + 1
            sides.append((start, shape[axis] - start - reach, stride - 1))
        zero = jnp.zeros((), values.dtype)
        return lax.pad(values, zero, self.along(values.ndim, sides, (0, 0, 0)))

    def spread(self, values: Any, filling: Any) -> Any:
        """Values, one for each window, as far apart as the windows, with a filling in between."""
        sides = self.along(values.ndim, [(0, 0, stride - 1) for stride in self.strides], (0, 0, 0))
        return lax.pad(values, jnp.asarray(filling, values.dtype), sides)

    def moved(self, spread: Any, place: Sequence[int], shape: Sequence[Any]) -> Any:
        """What `spread` gave, at one place of the windows in zeros of the padded shape."""
        sides = []
        for axis, inside, dilation in zip(self.axes, place, self.dilation, strict=True):
            start = inside * dilation
            sides.append((start, shape[axis] - start - spread.shape[axis], 0))
        return lax.pad(
            spread, jnp.zeros((), spread.dtype), self.along(spread.ndim, sides, (0, 0, 0))
        )

    def reduced(self, x: Any, start: Any, combine: Callable[[Any, Any], Any], one: Any) -> Any:
        """Each window of `x` reduced: by `combine` over its places, or by XLA to `one`."""
        if self.left_to_xla:
            return lax.reduce_window(
                x,
                np.asarray(start, x.dtype),  # concrete, so that JAX sees which reduction it is
                one,
                self.along(x.ndim, self.size, 1),
                self.along(x.ndim, self.strides, 1),
                self.along(x.ndim, self.pads, (0, 0)),
                window_dilation=self.along(x.ndim, self.dilation, 1),
            )
        padded = self.padded(x, start)
        return functools.reduce(combine, (self.at(padded, place) for place in self.places()))
