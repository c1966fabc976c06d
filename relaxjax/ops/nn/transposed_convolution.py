"""Transposed convolutions: each input is spread over a window of the output, times the kernel."""

from collections.abc import Callable, Sequence
from typing import Any

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import cast
from relaxjax.ops.conversions import DType, Ints
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, dtype_of
from relaxjax.ops.lettered_layouts import convolution_layout
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.platform import by_platform
from relaxjax.ops.scaling import convolution_scaling
from relaxjax.ops.shapes import common_vdevice

from .array_convolution import Convolution, TransposedConvolution
from .convolution import (
    complete_convolution,
    dims_by_letter,
    in_one_dtype,
    result_dtype,
    swapped_kernel,
    weight_adjoint,
)
from .cpu import transposed_convolution as on_cpu
from .layouts import SPATIAL, in_layout, pad_pairs, require_rank, window_span


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


def _lowering(apply: Callable[[TransposedConvolution, Any, Any, Any], Any]) -> Callable[..., Any]:
    """A lowering that computes a transposed convolution by one of its forms."""

    def lower(
        data: Any, weight: Any, padding: Any, output_padding: Any, out_dtype: Any, **form: Any
    ) -> Any:
        data, weight, wide = in_one_dtype(data, weight, out_dtype)
        form["kernel_layout"] = swapped_kernel(form["kernel_layout"])
        convolution = Convolution(pads=tuple(pad_pairs(padding)), **form)
        out = apply(TransposedConvolution(convolution, output_padding), data, weight, wide)
        return cast(out, out_dtype or out.dtype)

    return lower


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
    window, kernel = (strides, padding, dilation, groups), swapped_kernel(kernel_layout)
    dtype = None if out_dtype is None else dtype_of(data)
    layouts = (out_layout, kernel, data_layout)
    to_data = call(f"nn.conv{len(strides)}d", g, weight, *window, *layouts, dtype)
    return to_data, weight_adjoint(g, data, weight, window, (out_layout, data_layout, kernel))


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
        lower=by_platform(_lowering(TransposedConvolution.by_xla), cpu=_lowering(on_cpu.convolved)),
        gradient=_gradient,
        precision="always",
        fusion="out_fusable",
        cost=LOWERED,
    )(infer)


conv1d_transpose = transposed_convolution(1)
conv2d_transpose = transposed_convolution(2)
conv3d_transpose = transposed_convolution(3)
