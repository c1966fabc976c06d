"""How transposed convolutions are computed: by XLA's own, or on a CPU as products put back.

XLA's own is a convolution of data spread out by the strides: most of what it multiplies is zeros.
Where that is slow, the data is multiplied by the whole kernel at once, and each place of the kernel
is added where it belongs. `docs/performance.md` says which form is taken where.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import planes
from .convolution_forms import FEW, LONG, MANY_PLACES, SMALL, WIDE, Convolution, known, usual
from .kernel_matrices import KernelMatrix
from .layouts import by_letter, numbered, permutation, relabelled, window_span
from .phases import put_back_by_phases
from .window_numbers import can_be_put_back, put_back
from .windows import Windows

# From so many places on, a window that reaches over the border is mostly outside of the data.
_LARGE = 25


@dataclass(frozen=True)
class TransposedConvolution:
    """The transpose of a convolution, whose layouts are those of the data and the result here."""

    of: Convolution
    more: tuple[Any, ...]  # elements at the end of each axis of the result

    def by_xla(self, data: Any, weight: Any, dtype: Any) -> Any:
        """A convolution of the data, spread out by the strides, with the kernel turned round."""
        pads = [
            (span - 1 - low, span - 1 - high + extra)
            for span, (low, high), extra in zip(
                self._spans(weight), self.of.pads, self.more, strict=True
            )
        ]
        kernel, layout = self._turned_round(weight)
        return lax.conv_general_dilated(
            data,
            kernel,
            (1,) * len(pads),
            pads,
            lhs_dilation=self.of.strides,
            rhs_dilation=self.of.dilation,
            dimension_numbers=numbered(self.of.data_layout, layout, self.of.out_layout),
            feature_group_count=self.of.groups,
            preferred_element_type=dtype,
        )

    def on_cpu(self, data: Any, weight: Any, dtype: Any) -> Any:
        """A sum over the places of the kernel, where that is fast on a CPU, else by XLA."""
        if self.of.groups > 1 and self.of.is_sum_of_shifts(weight):
            if self._is_one_by_one(data):
                return self._by_phases(data, weight, dtype)
            return self._put_back(self._by_channel(data, weight, dtype), weight)
        if self._is_product(data, weight):
            last = replace(self, of=replace(self.of, data_layout=f"N{self.of.spatial}C"))
            rows = jnp.transpose(data, permutation(self.of.data_layout, last.of.data_layout))
            return last._added_up(last._by_product(rows, weight, dtype), weight)
        if self._is_volume(data, weight):
            return self._planes(data, weight, dtype)
        return self.by_xla(data, weight, dtype)

    def _planes(self, data: Any, weight: Any, dtype: Any) -> Any:
        """A transposed convolution of volumes as one of images."""

        def of_images(layouts: planes.Layouts, data: Any, weight: Any) -> Any:
            flat = replace(self, of=self.of.within_planes(layouts), more=self.more[1:])
            return flat.on_cpu(data, weight, dtype)

        windows = self.windows(data, weight)
        depth = self.lengths(windows.counts, weight)[0]
        of = self.of
        return planes.put_back(data, weight, windows, of.layouts, of.groups, depth, of_images)

    def _is_one_by_one(self, data: Any) -> bool:
        """Whether a group has one channel of the data, and lengths are known."""
        is_single = data.shape[self.of.data_layout.index("C")] == self.of.groups
        return is_single and known((*(data.shape[axis] for axis in self.of.axes), *self.more))

    def _is_product(self, data: Any, weight: Any) -> bool:
        """Whether XLA computes much for nothing, or without products of matrices."""
        sizes = by_letter(weight.shape, self.of.kernel_layout)
        window = [sizes[letter] for letter in self.of.spatial]
        if self.of.is_pointwise(weight):
            return True
        lengths = [data.shape[axis] for axis in self.of.axes]
        if self.of.groups > 1 or not known((*lengths, *weight.shape)):
            return False
        places, elements = math.prod(window), math.prod(lengths)
        if places > MANY_PLACES or 0 in data.shape:
            return False
        if places > elements or self._is_small_image(data, sizes):
            return True
        if len(window) == 3 or any(stride != 1 for stride in self.of.strides):
            return False
        results = math.prod(self.lengths(lengths, weight))
        outside = places >= _LARGE and 2 * results >= 3 * elements
        return bool(sizes["I"] <= FEW or outside)

    def _is_volume(self, data: Any, weight: Any) -> bool:
        """Whether it is of planes whose number is known, and not too large."""
        if not self.of.is_volume or 0 in (*data.shape, *weight.shape):
            return False
        depth = by_letter(weight.shape, self.of.kernel_layout)["D"]
        lengths = (*(data.shape[axis] for axis in self.of.axes), *weight.shape)
        return known(lengths) and depth <= planes.MOST_PLANES

    def _is_small_image(self, data: Any, sizes: Mapping[str, Any]) -> bool:
        """Whether there are many channels in images of few places."""
        elements = math.prod(data.shape[axis] for axis in self.of.axes)
        batch = usual(data.shape[self.of.data_layout.index("N")])
        wide = min(sizes["I"], sizes["O"]) >= WIDE and elements <= SMALL
        return bool(wide and batch * elements <= LONG)

    def _spans(self, weight: Any) -> list[Any]:
        sizes = by_letter(weight.shape, self.of.kernel_layout)
        return [
            window_span(sizes[letter], dilation)
            for letter, dilation in zip(self.of.spatial, self.of.dilation, strict=True)
        ]

    def lengths(self, lengths: Any, weight: Any) -> list[Any]:
        """The spatial lengths of the result, without what `padding` cuts off."""
        return [
            (length - 1) * stride + span + extra
            for length, stride, span, extra in zip(
                lengths, self.of.strides, self._spans(weight), self.more, strict=True
            )
        ]

    def _turned_round(self, weight: Any) -> tuple[Any, str]:
        """The kernel flipped along its spatial axes, with input and output channels swapped."""
        layout = relabelled(self.of.kernel_layout, O="I", I="O")
        kernel = lax.rev(weight, [layout.index(letter) for letter in self.of.spatial])
        if self.of.groups == 1:
            return kernel, layout
        kernel = jnp.transpose(kernel, permutation(layout, f"IO{self.of.spatial}"))
        (inputs, outputs, *window), groups = kernel.shape, self.of.groups
        apart = jnp.swapaxes(
            lax.reshape(kernel, (groups, inputs // groups, outputs, *window)), 1, 2
        )
        shape = (groups * outputs, inputs // groups, *window)
        return lax.reshape(apart, shape), f"OI{self.of.spatial}"

    def _by_channel(self, data: Any, weight: Any, dtype: Any) -> Mapping[tuple[int, ...], Any]:
        """The data times the kernel at each of its places, where a group has one channel of both.

        The channels of the data in a group are added up.
        """
        vectors = self.of.vectors(weight, dtype)
        size, channel = vectors.shape[: len(self.of.strides)], self.of.data_layout.index("C")
        apart = [*data.shape[:channel], self.of.groups, -1, *data.shape[channel + 1 :]]
        single = data.shape[channel] == self.of.groups

        def part(place: tuple[int, ...]) -> Any:
            products = data.astype(dtype) * vectors[place]
            return products if single else jnp.sum(products.reshape(apart), channel + 1)

        return {place: part(place) for place in np.ndindex(size)}

    def _by_phases(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The same where a group has one channel of the data too, as sums of slices of it."""
        of, windows = self.of, self.windows(data, weight)
        lengths = self._results(windows, weight)
        out = put_back_by_phases(data.astype(dtype), of.vectors(weight, dtype), windows, lengths)
        return jnp.transpose(out, permutation(of.data_layout, of.out_layout))

    def _by_product(self, data: Any, weight: Any, dtype: Any) -> Mapping[tuple[int, ...], Any]:
        """The data, its channels last, times the whole kernel as one matrix."""
        sizes = by_letter(weight.shape, self.of.kernel_layout)
        window = [sizes[letter] for letter in self.of.spatial]
        keeps = usual(data.shape[0]) * math.prod(map(usual, data.shape[1:-1])) <= sizes["O"]
        kernel = KernelMatrix.of(self.of.kernel_layout, self.of.spatial, keeps)
        rows = lax.reshape(data, (data.size // data.shape[-1], data.shape[-1]))
        columns = kernel.rows(weight, self.of.kernel_layout)
        product = jnp.matmul(rows, columns, preferred_element_type=dtype)
        product = lax.reshape(product, (*data.shape[:-1], columns.shape[1]))
        shaped, axes = kernel.apart(product, window)

        def part(place: tuple[int, ...]) -> Any:
            starts, ends = [0] * shaped.ndim, list(shaped.shape)
            for axis, start in zip(axes, place, strict=True):
                starts[axis], ends[axis] = start, start + 1
            return lax.squeeze(lax.slice(shaped, starts, ends), axes)

        return {place: part(place) for place in np.ndindex(tuple(window))}

    def _added_up(self, parts: Mapping[tuple[int, ...], Any], weight: Any) -> Any:
        """The same as `_put_back` of tensors whose channels are last."""
        windows = self.windows(next(iter(parts.values())), weight)
        lengths = self._results(windows, weight)
        if not known((*windows.counts, *lengths)) or not can_be_put_back(windows, lengths):
            return self._put_back(parts, weight)
        out = put_back(windows, parts, lengths)
        return jnp.transpose(out, permutation(self.of.data_layout, self.of.out_layout))

    def _results(self, windows: Windows, weight: Any) -> list[Any]:
        """The spatial lengths of the result."""
        lengths = self.lengths(windows.counts, weight)
        return [n - low - high for n, (low, high) in zip(lengths, windows.pads, strict=True)]

    def _put_back(self, parts: Mapping[tuple[int, ...], Any], weight: Any) -> Any:
        """The sum of tensors, each spread by the strides and moved to a place of the windows."""
        of, one = self.of, next(iter(parts.values()))
        windows, shape = self.windows(one, weight), list(one.shape)
        for axis, length in zip(of.axes, self.lengths(windows.counts, weight), strict=True):
            shape[axis] = length
        moved = (windows.back(part, place, shape) for place, part in parts.items())
        out = windows.unpadded(functools.reduce(jnp.add, moved))
        return jnp.transpose(out, permutation(of.data_layout, of.out_layout))

    def windows(self, data: Any, weight: Any) -> Windows:
        """The windows of the convolution that this is the transpose of: one for each element."""
        of, sizes = self.of, by_letter(weight.shape, self.of.kernel_layout)
        size = tuple(sizes[letter] for letter in of.spatial)
        counts = tuple(data.shape[axis] for axis in of.axes)
        return Windows(of.axes, size, of.strides, of.pads, of.dilation, counts)
