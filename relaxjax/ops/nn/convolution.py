"""Convolutions in one to three dimensions, in any layout, with strides, dilation and groups.

The gradients are convolutions again: that of the data a transposed one, that of the weight one of
the data with the adjoint as its kernel, in which strides and dilation change places.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaxjax.ir.dims import Dim, can_prove_different, floordiv
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import cast, jax_dtype
from relaxjax.ops.conversions import DType, Ints
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, dims_of, dtype_of
from relaxjax.ops.lettered_layouts import convolution_layout
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.platform import by_platform
from relaxjax.ops.scaling import convolution_scaling
from relaxjax.ops.shapes import common_dtype, common_vdevice

from .array_convolution import Convolution
from .cpu import convolution as on_cpu
from .layouts import (
    SPATIAL,
    both_sides,
    by_letter,
    check_layout,
    in_layout,
    pad_pairs,
    per_axis,
    relabelled,
    require_positive,
    require_rank,
    spatial_axes,
    window_span,
)

_RULES: dict[str, Any] = {"precision": "always", "fusion": "out_fusable", "cost": LOWERED}


def complete_convolution(
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str | None,
    **rest: Any,
) -> Mapping[str, Any]:
    """One value for each spatial axis where one stood for all, and the layout of the result."""
    count = spatial_axes("data_layout", data_layout)
    out_layout = out_layout or data_layout
    for name, layout in (("data_layout", data_layout), ("out_layout", out_layout)):
        check_layout(name, layout, f"NC{SPATIAL[count]}")
    check_layout("kernel_layout", kernel_layout, f"OI{SPATIAL[count]}")
    full = {
        "strides": per_axis("strides", strides, count),
        "dilation": per_axis("dilation", dilation, count),
    }
    if "output_padding" in rest:
        full["output_padding"] = per_axis("output_padding", rest["output_padding"], count)
    require_positive(strides=full["strides"], dilation=full["dilation"], groups=[groups])
    return {**full, "padding": both_sides(padding, count), "out_layout": out_layout}


def result_dtype(data: TensorType, weight: TensorType, out_dtype: str | None) -> str | None:
    return out_dtype or common_dtype(data=data, weight=weight)


def dims_by_letter(ty: TensorType, layout: str) -> dict[str, Dim] | None:
    return None if ty.dims is None else by_letter(ty.dims, layout)


def _convolution_type(
    data: TensorType,
    weight: TensorType,
    strides: Sequence[Dim],
    padding: Sequence[Dim],
    dilation: Sequence[Dim],
    groups: int,
    layouts: tuple[str, str, str],
    out_dtype: str | None,
) -> TensorType:
    data_layout, kernel_layout, out_layout = layouts
    require_rank("data", data, data_layout)
    require_rank("weight", weight, kernel_layout)
    dtype, vdevice = result_dtype(data, weight, out_dtype), common_vdevice(data, weight)
    image, kernel = dims_by_letter(data, data_layout), dims_by_letter(weight, kernel_layout)
    if image is None or kernel is None:
        return TensorType(None, dtype, len(out_layout), vdevice)
    if can_prove_different(image["C"], kernel["I"] * groups):
        raise OpError(
            f"`data` must have {kernel['I']} * {groups} channels, "
            f"those of `weight` times `groups`, found {image['C']}"
        )
    if isinstance(kernel["O"], int) and kernel["O"] % groups:
        raise OpError(f"`groups` must divide the {kernel['O']} output channels, found {groups}")
    out = {"N": image["N"], "C": kernel["O"]}
    spatial = SPATIAL[len(strides)]
    for axis, (low, high) in enumerate(pad_pairs(padding)):
        letter = spatial[axis]
        room = image[letter] + low + high - window_span(kernel[letter], dilation[axis])
        if isinstance(room, int) and room < 0:
            raise OpError(
                f"the kernel does not fit into `data` along {letter}: it reaches over "
                f"{window_span(kernel[letter], dilation[axis])} elements of {image[letter]}, "
                f"padded by {low} and {high}"
            )
        out[letter] = floordiv(room, strides[axis]) + 1
    return TensorType(in_layout(out, out_layout), dtype, vdevice=vdevice)


def in_one_dtype(data: Any, weight: Any, out_dtype: str | None) -> tuple[Any, Any, Any]:
    """The operands in one dtype, and the dtype in which to add up."""
    if data.dtype != weight.dtype:
        data, weight = cast(data, out_dtype), cast(weight, out_dtype)
    target = data.dtype if out_dtype is None else jax_dtype(out_dtype)
    return data, weight, target if target.itemsize >= data.dtype.itemsize else data.dtype


def _lowering(apply: Callable[[Convolution, Any, Any, Any], Any]) -> Callable[..., Any]:
    """A lowering that computes a convolution by one of its forms."""

    def lower(data: Any, weight: Any, padding: Any, out_dtype: str | None, **form: Any) -> Any:
        data, weight, wide = in_one_dtype(data, weight, out_dtype)
        convolution = Convolution(pads=tuple(pad_pairs(padding)), **form)
        out = apply(convolution, data, weight, wide)
        return cast(out, out_dtype or out.dtype)

    return lower


def swapped_kernel(layout: str) -> str:
    return relabelled(layout, O="I", I="O")


def _convolution_gradient(
    g: Expr,
    y: Expr,
    data: Expr,
    weight: Expr,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str,
    out_dtype: str | None,
) -> tuple[Expr, Expr]:
    count = len(strides)
    image, kernel = by_letter(dims_of(data), data_layout), by_letter(dims_of(weight), kernel_layout)
    out = by_letter(dims_of(y), out_layout)
    reached = [
        (out[c] - 1) * strides[a] - low - high + window_span(kernel[c], dilation[a])
        for a, (c, (low, high)) in enumerate(zip(SPATIAL[count], pad_pairs(padding), strict=True))
    ]
    more = [image[c] - length for c, length in zip(SPATIAL[count], reached, strict=True)]
    back = (out_layout, swapped_kernel(kernel_layout), data_layout)
    given = (g, weight, strides, padding, more, dilation, groups, *back)
    to_data = call(
        f"nn.conv{count}d_transpose", *given, None if out_dtype is None else dtype_of(data)
    )
    window, layouts = (strides, padding, dilation, groups), (data_layout, out_layout, kernel_layout)
    return to_data, weight_adjoint(data, g, weight, window, layouts)


def weight_adjoint(
    image: Expr,
    features: Expr,
    weight: Expr,
    window: tuple[Any, Any, Any, int],
    layouts: tuple[str, str, str],
) -> Expr:
    """The adjoint of a kernel, from what it was applied to and from the adjoint of what came out.

    A convolution in which channels are the batch and the batch is summed over. What strides left
    over at the end of `image` is taken off the padding; where its length is unknown, it shows as
    places behind the kernel's, which are cut off.
    """
    strides, padding, dilation, groups = window
    image_layout, feature_layout, kernel_layout = layouts
    image_dims = by_letter(dims_of(image), image_layout)
    kernel_dims = by_letter(dims_of(weight), kernel_layout)
    out_dtype = dtype_of(weight)
    mixed = not dtype_of(image) == dtype_of(features) == out_dtype
    room = _without_rest(image_dims, kernel_dims, strides, padding, dilation)
    data = _groups_in_batch(image, image_layout, groups)
    channels_as_batch = (
        relabelled(image_layout, N="C", C="N"),
        relabelled(feature_layout, N="I", C="O"),
        relabelled(kernel_layout, I="N", O="C"),
    )
    given = (data, features, dilation, room, strides, groups, *channels_as_batch)
    adjoint = call(f"nn.conv{len(strides)}d", *given, out_dtype if mixed else None)
    dims = dims_of(weight)
    if dims_of(adjoint) == dims:
        return adjoint
    axes = list(range(len(dims)))
    return call("strided_slice", adjoint, axes, [0] * len(axes), dims)


def _without_rest(
    image: Mapping[str, Dim],
    kernel: Mapping[str, Dim],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """The padding without what no window reaches, as far as that is known."""
    lows, highs = [], []
    for letter, stride, (low, high), step in zip(
        SPATIAL[len(strides)], strides, pad_pairs(padding), dilation, strict=True
    ):
        rest = (image[letter] + low + high - window_span(kernel[letter], step)) % stride
        lows.append(low)
        highs.append(high - rest if isinstance(rest, int) else high)
    return [*lows, *highs]


def _groups_in_batch(x: Expr, layout: str, groups: int) -> Expr:
    """The channels of each group as batches of their own, all those of one group together."""
    if groups == 1:
        return x
    dims, channel = dims_of(x), layout.index("C")
    size = floordiv(dims[channel], groups)
    apart = call("reshape", x, (*dims[:channel], groups, size, *dims[channel + 1 :]))
    group_axis, rest = channel, [a for a in range(len(dims) + 1) if a != channel]
    batch = rest.index(layout.index("N") + (layout.index("N") > channel))
    order = [*rest[:batch], group_axis, *rest[batch:]]
    merged = list(dims)
    merged[channel], merged[layout.index("N")] = size, dims[layout.index("N")] * groups
    return call("reshape", call("permute_dims", apart, order), merged)


def convolution(count: int) -> Op:
    """The convolution over `count` spatial axes."""
    spatial = SPATIAL[count]

    def infer(
        data: TensorType,
        weight: TensorType,
        strides: Ints = (1,) * count,
        padding: Ints = (0,) * count,
        dilation: Ints = (1,) * count,
        groups: int = 1,
        data_layout: str = f"NC{spatial}",
        kernel_layout: str = f"OI{spatial}",
        out_layout: str | None = None,
        out_dtype: DType | None = None,
    ) -> TensorType:
        layouts = (data_layout, kernel_layout, out_layout or data_layout)
        window = (strides, padding, dilation, groups)
        return _convolution_type(data, weight, *window, layouts, out_dtype)

    infer.__doc__ = (
        f"Convolution over {count} spatial {'axis' if count == 1 else 'axes'} ({spatial}): "
        "each output is the sum over a window of the data, times the kernel.\n\n"
        "`padding` is zeros before and after each axis. Of `groups` of channels, each has kernels "
        "of its own."
    )
    return op(
        f"relax.nn.conv{count}d",
        layout=convolution_layout(f"N{spatial}C", f"{spatial}IO"),
        scaling=convolution_scaling(transposed=False),
        complete=complete_convolution,
        lower=by_platform(_lowering(Convolution.by_library), cpu=_lowering(on_cpu.convolved)),
        gradient=_convolution_gradient,
        **_RULES,
    )(infer)


conv1d, conv2d, conv3d = convolution(1), convolution(2), convolution(3)
