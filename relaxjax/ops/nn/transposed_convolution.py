"""Transposed convolutions: each input is spread over a window of the output, times the kernel."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import cast
from relaxjax.ops.declare import DType, Ints, OpError, op
from relaxjax.ops.emit import call, dtype_of
from relaxjax.ops.lettered_layouts import convolution_layout
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.scaling import convolution_scaling
from relaxjax.ops.shapes import common_vdevice

from .convolution import (
    complete_convolution,
    dims_by_letter,
    in_one_dtype,
    result_dtype,
    swapped_kernel,
    weight_adjoint,
)
from .convolution_forms import Convolution
from .layouts import (
    SPATIAL,
    by_letter,
    in_layout,
    pad_pairs,
    permutation,
    require_rank,
    window_span,
)
from .windows import Windows


def _transposed_type(
    data: TensorType,
    weight: TensorType,
    strides: Sequence[Dim],
    padding: Sequence[Dim],
    output_padding: Sequence[Dim],
    dilation: Sequence[Dim],
    groups: int,
    layouts: tuple[str, str, str],
    out_dtype: str | None,
) -> TensorType:
    data_layout, kernel_layout, out_layout = layouts
    require_rank("data", data, data_layout)
    require_rank("weight", weight, kernel_layout)
    for extra, stride in zip(output_padding, strides, strict=True):
        if isinstance(extra, int) and isinstance(stride, int) and not 0 <= extra < stride:
            raise OpError(
                f"`output_padding` must be less than `strides`, "
                f"found {list(output_padding)} and {list(strides)}"
            )
    dtype, vdevice = result_dtype(data, weight, out_dtype), common_vdevice(data, weight)
    image, kernel = dims_by_letter(data, data_layout), dims_by_letter(weight, kernel_layout)
    if image is None or kernel is None:
        return TensorType(None, dtype, len(out_layout), vdevice)
    if can_prove_different(image["C"], kernel["I"]):
        raise OpError(f"`data` must have {kernel['I']} channels, as `weight`, found {image['C']}")
    if isinstance(kernel["I"], int) and kernel["I"] % groups:
        raise OpError(f"`groups` must divide the {kernel['I']} input channels, found {groups}")
    out = {"N": image["N"], "C": kernel["O"] * groups}
    for axis, (letter, (low, high)) in enumerate(
        zip(SPATIAL[len(strides)], pad_pairs(padding), strict=True)
    ):
        reach = (image[letter] - 1) * strides[axis] + window_span(kernel[letter], dilation[axis])
        left = reach - low - high + output_padding[axis]
        if isinstance(left, int) and left < 0:
            raise OpError(
                f"`padding` must leave something, but along {letter} it takes {low} and {high} "
                f"from {reach} elements"
            )
        out[letter] = left
    return TensorType(in_layout(out, out_layout), dtype, vdevice=vdevice)


def _convolve_transposed(
    data: Any,
    weight: Any,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str,
    out_dtype: str | None,
) -> Any:
    """By XLA's own, or as a sum over the places of the kernel, where that is few products.

    The layouts are those of the convolution that this one is the transpose of.
    """
    data, weight, wide = in_one_dtype(data, weight, out_dtype)
    pads, swapped = tuple(pad_pairs(padding)), swapped_kernel(kernel_layout)
    layouts = (data_layout, swapped, out_layout)
    form = Convolution(strides, pads, dilation, groups, *layouts)
    if form.is_pointwise(weight):
        plain = _plain_convolution(len(strides), data_layout, kernel_layout)
        parts = {(0,) * len(strides): plain.product(data, weight, wide)}
    elif form.is_depthwise(weight):
        vectors = form.vectors(weight, wide)
        size = vectors.shape[: len(strides)]
        parts = {place: data.astype(wide) * vectors[place] for place in np.ndindex(size)}
    else:
        out = _spread_out(data, weight, form, output_padding, wide)
        return cast(out, out_dtype or out.dtype)
    out = _put_back(parts, weight, form, output_padding)
    out = jnp.transpose(out, permutation(data_layout, out_layout))
    return cast(out, out_dtype or out.dtype)


def _plain_convolution(count: int, data_layout: str, kernel_layout: str) -> Convolution:
    """A convolution with no strides, padding or dilation, that keeps the layout."""
    one, none = (1,) * count, ((0, 0),) * count
    return Convolution(one, none, one, 1, data_layout, kernel_layout, data_layout)


def _put_back(
    parts: Mapping[tuple[int, ...], Any], weight: Any, form: Convolution, extra: Sequence[Any]
) -> Any:
    """The sum of tensors, each spread by the strides and moved to a place of the windows."""
    shape = list(next(iter(parts.values())).shape)
    sizes = by_letter(weight.shape, form.kernel_layout)
    size = tuple(sizes[letter] for letter in form.spatial)
    counts = tuple(shape[axis] for axis in form.axes)
    windows = Windows(form.axes, size, form.strides, form.pads, form.dilation, counts)
    for i, axis in enumerate(form.axes):
        span = window_span(size[i], form.dilation[i])
        shape[axis] = (counts[i] - 1) * form.strides[i] + span + extra[i]
    moved = (windows.back(part, place, shape) for place, part in parts.items())
    return windows.unpadded(functools.reduce(jnp.add, moved))


def _spread_out(data: Any, weight: Any, form: Convolution, extra: Sequence[Any], dtype: Any) -> Any:
    """A convolution of the data, spread out by the strides, with the kernel turned round."""
    sizes = by_letter(weight.shape, form.kernel_layout)
    spans = [window_span(sizes[c], d) for c, d in zip(form.spatial, form.dilation, strict=True)]
    pads = [
        (span - 1 - low, span - 1 - high + more)
        for span, (low, high), more in zip(spans, form.pads, extra, strict=True)
    ]
    kernel = _turned_round(weight, swapped_kernel(form.kernel_layout), form.spatial, form.groups)
    return lax.conv_general_dilated(
        data,
        kernel,
        (1,) * len(spans),
        pads,
        lhs_dilation=form.strides,
        rhs_dilation=form.dilation,
        dimension_numbers=(form.data_layout, f"OI{form.spatial}", form.out_layout),
        feature_group_count=form.groups,
        preferred_element_type=dtype,
    )


def _turned_round(weight: Any, layout: str, spatial: str, groups: int) -> Any:
    """The kernel flipped along its spatial axes, with its input and output channels swapped."""
    kernel = jnp.transpose(weight, permutation(layout, f"IO{spatial}"))
    kernel = lax.rev(kernel, range(2, kernel.ndim))
    inputs, outputs, *window = kernel.shape
    apart = lax.reshape(kernel, (groups, inputs // groups, outputs, *window))
    return lax.reshape(jnp.swapaxes(apart, 1, 2), (groups * outputs, inputs // groups, *window))


def _gradient(
    g: Expr,
    y: Expr,
    data: Expr,
    weight: Expr,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str,
    out_dtype: str | None,
) -> tuple[Expr, Expr]:
    to_data = call(
        f"nn.conv{len(strides)}d",
        g,
        weight,
        strides,
        padding,
        dilation,
        groups,
        out_layout,
        swapped_kernel(kernel_layout),
        data_layout,
        None if out_dtype is None else dtype_of(data),
    )
    to_weight = weight_adjoint(
        g,
        data,
        weight,
        (strides, padding, dilation, groups),
        (out_layout, data_layout, swapped_kernel(kernel_layout)),
    )
    return to_data, to_weight


def transposed_convolution(count: int) -> Op:
    """The transposed convolution over `count` spatial axes."""
    spatial = SPATIAL[count]

    def infer(
        data: TensorType,
        weight: TensorType,
        strides: Ints = (1,) * count,
        padding: Ints = (0,) * count,
        output_padding: Ints = (0,) * count,
        dilation: Ints = (1,) * count,
        groups: int = 1,
        data_layout: str = f"NC{spatial}",
        kernel_layout: str = f"IO{spatial}",
        out_layout: str | None = None,
        out_dtype: DType | None = None,
    ) -> TensorType:
        layouts = (data_layout, kernel_layout, out_layout or data_layout)
        window = (strides, padding, output_padding, dilation, groups)
        return _transposed_type(data, weight, *window, layouts, out_dtype)

    infer.__doc__ = (
        f"Transposed convolution over {count} spatial {'axis' if count == 1 else 'axes'} "
        f"({spatial}): the adjoint of conv{count}d in its data.\n\n"
        "`padding` is cut off the result, and `output_padding` added at its end."
    )
    return op(
        f"relax.nn.conv{count}d_transpose",
        layout=convolution_layout(f"N{spatial}C", f"{spatial}OI"),
        scaling=convolution_scaling(transposed=True),
        complete=complete_convolution,
        lower=_convolve_transposed,
        gradient=_gradient,
        precision="always",
        fusion="out_fusable",
        cost=LOWERED,
    )(infer)


conv1d_transpose = transposed_convolution(1)
conv2d_transpose = transposed_convolution(2)
conv3d_transpose = transposed_convolution(3)
