"""Which form computes a transposed convolution on a CPU: the first of a table that holds.

XLA's own is a convolution of data spread out by the strides: most of what it multiplies is zeros.
Where that is slow, the data is multiplied by the whole kernel at once, and each place of the kernel
is added where it belongs.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ops.nn.array_convolution import Layouts, TransposedConvolution
from relaxjax.ops.nn.layouts import by_letter, permutation
from relaxjax.ops.nn.windows import Windows

from . import planes
from .case import FEW, LONG, MANY_PLACES, SMALL, WIDE, known, usual
from .kernel_matrices import KernelMatrix
from .phases import put_back_by_phases
from .shifts import is_sum_of_shifts, vectors
from .window_numbers import can_be_put_back, put_back

# From so many places on, a window that reaches over the border is mostly outside of the data.
_LARGE = 25


@dataclass(frozen=True, eq=False)
class Case:
    """A transposed convolution of these arrays, whose sums are added up in `dtype`."""

    of: TransposedConvolution
    data: Any
    weight: Any
    dtype: Any

    @property
    def lengths(self) -> list[Any]:
        """The spatial lengths of the data."""
        return [self.data.shape[axis] for axis in self.of.of.axes]

    @property
    def sizes(self) -> Mapping[str, Any]:
        """The lengths of the kernel's axes."""
        return by_letter(self.weight.shape, self.of.of.kernel_layout)

    @functools.cached_property
    def windows(self) -> Windows:
        return self.of.windows(self.data, self.weight)

    def results(self) -> list[Any]:
        """The spatial lengths of the result."""
        lengths = self.of.lengths(self.lengths, self.weight)
        return [n - low - high for n, (low, high) in zip(lengths, self.of.of.pads, strict=True)]


def convolved(of: TransposedConvolution, data: Any, weight: Any, dtype: Any) -> Any:
    """The result of a transposed convolution, added up in `dtype`."""
    case = Case(of, data, weight, dtype)
    for holds, form in FORMS:
        if holds(case):
            return form(case)
    return of.on_cpu(data, weight, dtype)


def _is_by_channel(case: Case) -> bool:
    return case.of.of.groups > 1 and is_sum_of_shifts(case.of.of, case.weight)


def _is_depthwise(case: Case) -> bool:
    """Whether a group has one channel of the data, too, and lengths are known."""
    of = case.of.of
    is_single = case.data.shape[of.data_layout.index("C")] == of.groups
    return is_single and known((*case.lengths, *case.of.more)) and _is_by_channel(case)


def _is_product(case: Case) -> bool:
    """Whether XLA computes much for nothing, or without products of matrices."""
    of, sizes = case.of.of, case.sizes
    if of.is_pointwise(case.weight):
        return True
    if of.groups > 1 or not known((*case.lengths, *case.weight.shape)):
        return False
    places, elements = math.prod(of.size(case.weight)), math.prod(case.lengths)
    if places > MANY_PLACES or 0 in case.data.shape:
        return False
    if places > elements or _is_small_image(case):
        return True
    if len(of.strides) == 3 or any(stride != 1 for stride in of.strides):
        return False
    results = math.prod(case.of.lengths(case.lengths, case.weight))
    outside = places >= _LARGE and 2 * results >= 3 * elements
    return bool(sizes["I"] <= FEW or outside)


def _is_small_image(case: Case) -> bool:
    """Whether there are many channels in images of few places."""
    elements, sizes = math.prod(case.lengths), case.sizes
    batch = usual(case.data.shape[case.of.of.data_layout.index("N")])
    wide = min(sizes["I"], sizes["O"]) >= WIDE and elements <= SMALL
    return bool(wide and batch * elements <= LONG)


def _is_of_few_planes(case: Case) -> bool:
    """Whether it is of planes whose number is known, and not too large."""
    if len(case.of.of.strides) != 3 or 0 in (*case.data.shape, *case.weight.shape):
        return False
    lengths = (*case.lengths, *case.weight.shape)
    return known(lengths) and case.sizes["D"] <= planes.MOST_PLANES


def _by_phases(case: Case) -> Any:
    """Sums of slices of the data, for each phase of the strides."""
    of, data = case.of.of, case.data.astype(case.dtype)
    kernel = vectors(of, case.weight, case.dtype)
    out = put_back_by_phases(data, kernel, case.windows, case.results())
    return jnp.transpose(out, permutation(of.data_layout, of.out_layout))


def _by_channel(case: Case) -> Any:
    """The data times the kernel at each of its places, put back.

    The channels of the data in a group are added up.
    """
    of, data = case.of.of, case.data
    kernel, channel = vectors(of, case.weight, case.dtype), of.data_layout.index("C")
    apart = [*data.shape[:channel], of.groups, -1, *data.shape[channel + 1 :]]
    single = data.shape[channel] == of.groups

    def part(place: tuple[int, ...]) -> Any:
        products = data.astype(case.dtype) * kernel[place]
        return products if single else jnp.sum(products.reshape(apart), channel + 1)

    size = kernel.shape[: len(of.strides)]
    return _put_back(case, {place: part(place) for place in np.ndindex(size)})


def _by_product(case: Case) -> Any:
    """The data, its channels last, times the whole kernel as one matrix, put back."""
    of = replace(case.of.of, data_layout=f"N{case.of.of.spatial}C")
    data = jnp.transpose(case.data, permutation(case.of.of.data_layout, of.data_layout))
    case = replace(case, of=replace(case.of, of=of), data=data)
    keeps = usual(data.shape[0]) * math.prod(map(usual, data.shape[1:-1])) <= case.sizes["O"]
    kernel = KernelMatrix.of(of.kernel_layout, of.spatial, keeps)
    rows = lax.reshape(data, (data.size // data.shape[-1], data.shape[-1]))
    columns = kernel.rows(case.weight, of.kernel_layout)
    product = jnp.matmul(rows, columns, preferred_element_type=case.dtype)
    product = lax.reshape(product, (*data.shape[:-1], columns.shape[1]))
    size = of.size(case.weight)
    shaped, axes = kernel.apart(product, size)

    def part(place: tuple[int, ...]) -> Any:
        starts, ends = [0] * shaped.ndim, list(shaped.shape)
        for axis, start in zip(axes, place, strict=True):
            starts[axis], ends[axis] = start, start + 1
        return lax.squeeze(lax.slice(shaped, starts, ends), axes)

    parts, results = {place: part(place) for place in np.ndindex(size)}, case.results()
    if not known((*case.lengths, *results)) or not can_be_put_back(case.windows, results):
        return _put_back(case, parts)
    out = put_back(case.windows, parts, results)
    return jnp.transpose(out, permutation(of.data_layout, of.out_layout))


def _put_back(case: Case, parts: Mapping[tuple[int, ...], Any]) -> Any:
    """The sum of tensors, each spread by the strides and moved to a place of the windows."""
    of, windows = case.of.of, case.windows
    shape = list(next(iter(parts.values())).shape)
    for axis, length in zip(of.axes, case.of.lengths(windows.counts, case.weight), strict=True):
        shape[axis] = length
    moved = (windows.back(part, place, shape) for place, part in parts.items())
    out = windows.unpadded(functools.reduce(jnp.add, moved))
    return jnp.transpose(out, permutation(of.data_layout, of.out_layout))


def _by_planes(case: Case) -> Any:
    """A transposed convolution of volumes as one of images."""

    def of_images(layouts: Layouts, data: Any, weight: Any) -> Any:
        return convolved(case.of.within_planes(layouts), data, weight, case.dtype)

    of = case.of.of
    depth = case.of.lengths(case.lengths, case.weight)[0]
    return planes.put_back(
        case.data, case.weight, case.windows, of.layouts, of.groups, depth, of_images
    )


# Beside each form the time of it, of that of XLA's own, as in `FORMS` of `convolution`.
FORMS: tuple[tuple[Callable[[Case], bool], Callable[[Case], Any]], ...] = (
    (_is_depthwise, _by_phases),  # 0.13, 0.06 with strides
    (_is_by_channel, _by_channel),  # 0.01 several kernels a channel
    (
        _is_product,
        _by_product,
    ),  # 0.04 for images of 2x2, 0.84 for 4x4, 0.40 for 5x5 from 6 channels
    (_is_of_few_planes, _by_planes),  # 0.20, 0.04 with strides
)
