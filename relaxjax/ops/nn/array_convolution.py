"""Convolutions of arrays, and their transposes: how they lie, their windows, and XLA's own form.

XLA's own is the right one on a GPU, whose library it calls. `cpu` holds the forms that are faster
on a CPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ops.lax.convolution import Convolve, convolved_on_cpu

from .layouts import SPATIAL, by_letter, numbered, relabelled, window_span
from .windows import Windows

Layouts = tuple[str, str, str]  # of data, kernel and result


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

    @property
    def layouts(self) -> Layouts:
        return self.data_layout, self.kernel_layout, self.out_layout

    def by_xla(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The result, added up in `dtype`, by XLA's own convolution."""
        return self._by_xla(data, weight, dtype, self.groups, 1)

    def on_cpu(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The same as XLA is fast at on a CPU."""
        return self._by_xla(data, weight, dtype, self.groups, 1, convolved_on_cpu)

    def by_library(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The same as XLA hands it to a device's library.

        Only by groups of the batch does XLA see the adjoint of kernels, whose data has examples
        for channels. By groups of channels it asks cuDNN for kernels as large as images.
        """
        if self.groups == 1 or not self.data_layout.startswith("C"):
            return self.by_xla(data, weight, dtype)
        channel, batch = map(self.data_layout.index, "CN")
        apart = _groups_moved(data, channel, batch, self.groups)
        return self._by_xla(apart, weight, dtype, 1, self.groups)

    def _by_xla(
        self,
        data: Any,
        weight: Any,
        dtype: Any,
        channels: int,
        batches: int,
        convolve: Convolve = lax.conv_general_dilated,
    ) -> Any:
        """By groups of the channels, or of the batch."""
        return convolve(
            data,
            weight,
            window_strides=self.strides,
            padding=self.pads,
            rhs_dilation=self.dilation,
            dimension_numbers=numbered(*self.layouts),
            feature_group_count=channels,
            batch_group_count=batches,
            preferred_element_type=dtype,
        )

    def within_planes(self, layouts: Layouts) -> "Convolution":
        """The same of images, which are the planes of volumes, for arrays of such layouts."""
        window = {name: getattr(self, name)[1:] for name in ("strides", "pads", "dilation")}
        data, kernel, out = layouts
        return replace(self, **window, data_layout=data, kernel_layout=kernel, out_layout=out)

    def size(self, weight: Any) -> tuple[Any, ...]:
        """The spatial lengths of the kernel."""
        sizes = by_letter(weight.shape, self.kernel_layout)
        return tuple(sizes[letter] for letter in self.spatial)

    def is_pointwise(self, weight: Any) -> bool:
        """Whether the kernel is of one element for each pair of channels."""
        return self.groups == 1 and all(length == 1 for length in self.size(weight))

    def windows(self, shape: Sequence[Any], weight: Any) -> Windows:
        """The windows of the kernel over data of a shape."""
        size = self.size(weight)
        counts = tuple(
            (shape[axis] + low + high - window_span(length, dilation)) // stride + 1
            for axis, (low, high), length, dilation, stride in zip(
                self.axes, self.pads, size, self.dilation, self.strides, strict=True
            )
        )
        return Windows(self.axes, size, self.strides, self.pads, self.dilation, counts)


def _groups_moved(array: Any, source: int, target: int, groups: int) -> Any:
    """The groups of an axis along another one, where each is a run of so many as there were."""
    if groups == 1:
        return array
    shape = list(array.shape)
    size = shape[source] // groups
    apart = lax.reshape(array, (*shape[:source], groups, size, *shape[source + 1 :]))
    shape[source], shape[target] = size, shape[target] * groups
    return lax.reshape(jnp.moveaxis(apart, source, target), shape)


@dataclass(frozen=True)
class TransposedConvolution:
    """The transpose of a convolution, whose layouts are those of the data and the result here."""

    of: Convolution
    more: tuple[Any, ...]  # elements at the end of each axis of the result

    def by_xla(self, data: Any, weight: Any, dtype: Any) -> Any:
        """A convolution of the data, spread out by the strides, with the kernel turned round."""
        return self._by_xla(data, weight, dtype, lax.conv_general_dilated)

    def on_cpu(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The same as XLA is fast at on a CPU."""
        return self._by_xla(data, weight, dtype, convolved_on_cpu)

    def _by_xla(self, data: Any, weight: Any, dtype: Any, convolve: Convolve) -> Any:
        pads = [
            (span - 1 - low, span - 1 - high + extra)
            for span, (low, high), extra in zip(
                self._spans(weight), self.of.pads, self.more, strict=True
            )
        ]
        kernel, layout = self._turned_round(weight)
        return convolve(
            data,
            kernel,
            window_strides=(1,) * len(pads),
            padding=pads,
            lhs_dilation=self.of.strides,
            rhs_dilation=self.of.dilation,
            dimension_numbers=numbered(self.of.data_layout, layout, self.of.out_layout),
            feature_group_count=self.of.groups,
            preferred_element_type=dtype,
        )

    def within_planes(self, layouts: Layouts) -> "TransposedConvolution":
        """The same of images, which are the planes of volumes, for arrays of such layouts."""
        return replace(self, of=self.of.within_planes(layouts), more=self.more[1:])

    def windows(self, data: Any, weight: Any) -> Windows:
        """The windows of the convolution that this is the transpose of: one for each element."""
        of = self.of
        counts = tuple(data.shape[axis] for axis in of.axes)
        return Windows(of.axes, of.size(weight), of.strides, of.pads, of.dilation, counts)

    def lengths(self, lengths: Any, weight: Any) -> list[Any]:
        """The spatial lengths of the result, without what `padding` cuts off."""
        return [
            (length - 1) * stride + span + extra
            for length, stride, span, extra in zip(
                lengths, self.of.strides, self._spans(weight), self.more, strict=True
            )
        ]

    def _spans(self, weight: Any) -> list[Any]:
        return list(map(window_span, self.of.size(weight), self.of.dilation))

    def _turned_round(self, weight: Any) -> tuple[Any, str]:
        """The kernel flipped along its spatial axes, with input and output channels swapped."""
        layout = relabelled(self.of.kernel_layout, O="I", I="O")
        kernel = _groups_moved(weight, layout.index("I"), layout.index("O"), self.of.groups)
        # This is done last: XLA looks at what it convolves with for the adjoint of data.
        return lax.rev(kernel, [layout.index(letter) for letter in self.of.spatial]), layout
