"""Transposed convolutions: each input is spread over a window of the output, times the kernel."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import cast
from relaxjax.ops.declare import DType, Ints, OpError, op
from relaxjax.ops.emit import call, dtype_of
from relaxjax.ops.shapes import common_vdevice

from .convolution import (
    complete_convolution,
    dims_by_letter,
    in_one_dtype,
    result_dtype,
    swapped_kernel,
    weight_adjoint,
)
from .layouts import (
    SPATIAL,
    by_letter,
    in_layout,
    pad_pairs,
    permutation,
    require_rank,
    window_span,
)


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
        out[letter] = reach - low - high + output_padding[axis]
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
    """A convolution of the data, spread out by the strides, with the kernel turned round."""
    data, weight, wide = in_one_dtype(data, weight, out_dtype)
    spatial = SPATIAL[len(strides)]
    sizes = by_letter(weight.shape, kernel_layout)
    pads = [
        (span - 1 - low, span - 1 - high + extra)
        for span, (low, high), extra in zip(
            (window_span(sizes[c], d) for c, d in zip(spatial, dilation, strict=True)),
            pad_pairs(padding),
            output_padding,
            strict=True,
        )
    ]
    out = lax.conv_general_dilated(
        data,
        _turned_round(weight, kernel_layout, spatial, groups),
        (1,) * len(spatial),
        pads,
        lhs_dilation=strides,
        rhs_dilation=dilation,
        dimension_numbers=(data_layout, f"OI{spatial}", out_layout),
        feature_group_count=groups,
        preferred_element_type=wide,
    )
    return cast(out, out_dtype or out.dtype)


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
        complete=complete_convolution,
        lower=_convolve_transposed,
        gradient=_gradient,
        precision="always",
        fusion="contraction",
    )(infer)


conv1d_transpose = transposed_convolution(1)
conv2d_transpose = transposed_convolution(2)
conv3d_transpose = transposed_convolution(3)
