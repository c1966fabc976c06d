"""How convolutions are computed: by XLA's own, or by a faster exact form where one applies.

A kernel of one element is a matrix, and a product with it beats the convolution. One kernel for
each channel (a depthwise convolution) is a sum of shifted tensors, each times a vector. A kernel
about as large as the data, such as the adjoint that a weight's gradient slides over it, has few
results, and each is one product.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from .layouts import SPATIAL, by_letter, permutation, window_span
from .windows import Windows

_MANY_PLACES = 49


@dataclass(frozen=True)
class Convolution:
    """A convolution of arrays: window, groups, and layouts of data, kernel and result."""

    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    data_layout: str
    kernel_layout: str
    out_layout: str

    @property
    def spatial(self) -> str:
        return SPATIAL[len(self.strides)]

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes of the data."""
        return tuple(self.data_layout.index(letter) for letter in self.spatial)

    def apply(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The result, added up in `dtype`."""
        if self.is_pointwise(weight) and not any(map(any, self.pads)):
            return self.product(data, weight, dtype)
        if self.is_depthwise(weight):
            return self._shifts(data, weight, dtype)
        windows = self.windows(data.shape, weight)
        if self._has_few_results(data, weight, windows):
            return self._one_by_one(data, weight, windows, dtype)
        return lax.conv_general_dilated(
            data,
            weight,
            self.strides,
            self.pads,
            rhs_dilation=self.dilation,
            dimension_numbers=(self.data_layout, self.kernel_layout, self.out_layout),
            feature_group_count=self.groups,
            preferred_element_type=dtype,
        )

    def is_pointwise(self, weight: Any) -> bool:
        """Whether the kernel is of one element for each pair of channels."""
        sizes = by_letter(weight.shape, self.kernel_layout)
        return self.groups == 1 and all(sizes[letter] == 1 for letter in self.spatial)

    def is_depthwise(self, weight: Any) -> bool:
        """Whether each channel has one kernel, of few elements, and the windows can be counted."""
        sizes = by_letter(weight.shape, self.kernel_layout)
        places = [sizes[letter] for letter in self.spatial]
        single = self.groups > 1 and sizes["I"] == 1 and sizes["O"] == self.groups
        known = all(isinstance(place, int) for place in places)
        return single and known and math.prod(places) <= _MANY_PLACES

    def _has_few_results(self, data: Any, weight: Any, windows: Windows) -> bool:
        """Whether the kernel is as large as the data, or has one result a group in a few places."""
        if not all(isinstance(n, int) for n in (*windows.counts, *windows.size)):
            return False
        results, places = math.prod(windows.counts), math.prod(windows.size)
        batch = by_letter(data.shape, self.data_layout)["N"]
        outputs = by_letter(weight.shape, self.kernel_layout)["O"]
        single = self.groups > 1 and batch == 1 and outputs == self.groups
        return bool(0 < results < places and results <= (_MANY_PLACES if single else 1))

    def _one_by_one(self, data: Any, weight: Any, windows: Windows, dtype: Any) -> Any:
        """Each result as a product of the kernel with the window of the data that it covers."""
        padded = jnp.transpose(
            windows.padded(data, 0), permutation(self.data_layout, f"NC{self.spatial}")
        )
        kernel = jnp.transpose(weight, permutation(self.kernel_layout, f"OI{self.spatial}"))
        axes = tuple(range(2, data.ndim))
        # The windows, each whole, at one place of the result after the other: roles are swapped.
        swapped = Windows(
            axes, windows.counts, self.dilation, windows.pads, self.strides, windows.size
        )
        parts = [
            self._grouped_product(swapped.at(padded, place), kernel, dtype)
            for place in swapped.places()
        ]
        out = lax.reshape(jnp.stack(parts, -1), (*parts[0].shape, *windows.counts))
        return jnp.transpose(out, permutation(f"NC{self.spatial}", self.out_layout))

    def _grouped_product(self, window: Any, kernel: Any, dtype: Any) -> Any:
        """The sum over channels and places of one window times the kernel, for each group."""
        inputs = lax.reshape(
            window, (window.shape[0], self.groups, kernel.shape[1], *window.shape[2:])
        )
        outputs = lax.reshape(
            kernel, (self.groups, kernel.shape[0] // self.groups, *kernel.shape[1:])
        )
        if self.groups > 1 and inputs.shape[0] == 1 and outputs.shape[1] == 1:
            products = inputs[0].astype(dtype) * outputs[:, 0].astype(dtype)
            return jnp.sum(products, tuple(range(1, products.ndim)))[None]
        rows = lax.reshape(inputs, (*inputs.shape[:2], math.prod(inputs.shape[2:])))
        columns = lax.reshape(outputs, (*outputs.shape[:2], math.prod(outputs.shape[2:])))
        product = jnp.einsum("ngk,gok->ngo", rows, columns, preferred_element_type=dtype)
        return lax.reshape(product, (product.shape[0], kernel.shape[0]))

    def product(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The result for a kernel of one element: a product of matrices."""
        for letter, stride in zip(self.spatial, self.strides, strict=True):
            axis = self.data_layout.index(letter)
            data = lax.slice_in_dim(data, 0, data.shape[axis], stride, axis)
        last = self.data_layout.replace("C", "") + "C"
        rows = jnp.transpose(data, permutation(self.data_layout, last))
        matrix = jnp.transpose(weight, permutation(self.kernel_layout, f"IO{self.spatial}"))
        matrix = lax.reshape(matrix, matrix.shape[:2])
        count = rows.size // rows.shape[-1] if rows.size else 0
        product = jnp.matmul(
            lax.reshape(rows, (count, rows.shape[-1])), matrix, preferred_element_type=dtype
        )
        shaped = lax.reshape(product, (*rows.shape[:-1], matrix.shape[1]))
        return jnp.transpose(shaped, permutation(last, self.out_layout))

    def _shifts(self, data: Any, weight: Any, dtype: Any) -> Any:
        windows = self.windows(data.shape, weight)
        padded, vectors = windows.padded(data, 0).astype(dtype), self.vectors(weight, dtype)
        parts = (windows.at(padded, place) * vectors[place] for place in windows.places())
        out = functools.reduce(jnp.add, parts)
        return jnp.transpose(out, permutation(self.data_layout, self.out_layout))

    def windows(self, shape: Sequence[Any], weight: Any) -> Windows:
        """The windows of the kernel over data of a shape."""
        sizes = by_letter(weight.shape, self.kernel_layout)
        size = tuple(sizes[letter] for letter in self.spatial)
        counts = tuple(
            (shape[axis] + low + high - window_span(length, dilation)) // stride + 1
            for axis, (low, high), length, dilation, stride in zip(
                self.axes, self.pads, size, self.dilation, self.strides, strict=True
            )
        )
        return Windows(self.axes, size, self.strides, self.pads, self.dilation, counts)

    def vectors(self, weight: Any, dtype: Any) -> Any:
        """A depthwise kernel: at each place its elements for the channels, as they broadcast."""
        kernel = jnp.transpose(weight, permutation(self.kernel_layout, f"{self.spatial}OI"))
        channels = [self.groups if letter == "C" else 1 for letter in self.data_layout]
        return lax.reshape(kernel.astype(dtype), (*kernel.shape[:-2], *channels))
