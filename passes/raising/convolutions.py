"""Convolutions of `lax.*` as those of `relax.*`, in the layouts in which they are written."""

from collections.abc import Mapping, Sequence
from typing import Any

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, known_ndim, static_dims
from relaxjax.ops.nn.layouts import SPATIAL

from .reading import Reading, asks_for_precision, of_one_float, raises


@raises("lax.conv_general_dilated")
def convolution(call: Call, reading: Reading) -> Expr | None:
    """A convolution with strides, or one of data that is spread out: a transposed one."""
    if not _is_plain(call):
        return None
    attrs, count = call.attrs, known_ndim(call) - 2
    if count not in SPATIAL or not of_one_float(call):
        return None
    if set(attrs["lhs_dilation"]) != {1}:
        return _transposed(call, reading)
    lows, highs = zip(*attrs["padding"], strict=True)
    data_layout, kernel_layout, out_layout = _layouts(attrs["dimension_numbers"], SPATIAL[count])
    return get_op(f"relax.nn.conv{count}d")(
        *call.args,
        strides=attrs["window_strides"],
        padding=[*lows, *highs],
        dilation=attrs["rhs_dilation"],
        groups=attrs["feature_group_count"],
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
    )


def _transposed(call: Call, reading: Reading) -> Expr | None:
    """`relax` has the kernel of the convolution that it is the transpose of, turned round."""
    attrs, count = call.attrs, known_ndim(call) - 2
    sizes = static_dims(call.args[1].ty)
    if set(attrs["window_strides"]) != {1} or attrs["feature_group_count"] != 1 or sizes is None:
        return None
    layouts = _layouts(attrs["dimension_numbers"], SPATIAL[count])
    axes = [layouts[1].index(letter) for letter in SPATIAL[count]]
    spans = [(sizes[a] - 1) * d for a, d in zip(axes, attrs["rhs_dilation"], strict=True)]
    pairs = list(zip(spans, attrs["padding"], attrs["lhs_dilation"], strict=True))
    lows = [span - low for span, (low, _), _ in pairs]
    more = [max(0, high - span) for span, (_, high), _ in pairs]
    highs = [span - high + extra for (span, (_, high), _), extra in zip(pairs, more, strict=True)]
    fits = all(extra < stride for extra, (_, _, stride) in zip(more, pairs, strict=True))
    if min(lows) < 0 or not fits:
        return None
    kernel, kernel_layout = _turned_round(call.args[1], layouts[1], reading)
    return get_op(f"relax.nn.conv{count}d_transpose")(
        call.args[0],
        kernel,
        strides=attrs["lhs_dilation"],
        padding=[*lows, *highs],
        output_padding=more,
        dilation=attrs["rhs_dilation"],
        data_layout=layouts[0],
        kernel_layout=kernel_layout,
        out_layout=layouts[2],
    )


def _turned_round(kernel: Expr, layout: str, reading: Reading) -> tuple[Expr, str]:
    """A kernel flipped along its spatial axes, and its layout; what was flipped is so no longer.

    `lax.conv_transpose` flips kernels, and swaps their channels, before it has them convolved.
    """
    flipped = {letter for letter in layout if letter in SPATIAL[len(layout) - 2]}
    while (call := reading.call(kernel, "rev", "transpose")) is not None:
        if call.op is get_op("lax.rev"):
            flipped ^= {layout[axis] for axis in call.attrs["dimensions"]}
        else:
            axes = call.attrs["permutation"]
            layout = "".join(layout[axes.index(axis)] for axis in range(len(layout)))
        kernel = call.args[0]
    for axis, letter in enumerate(layout):
        kernel = get_op("relax.flip")(kernel, axis) if letter in flipped else kernel
    return kernel, layout


def _is_plain(call: Call) -> bool:
    """Whether sums are rounded as usual, no padding takes anything away, and the kernel fits."""
    attrs = call.attrs
    pads = [pad for pair in attrs["padding"] for pad in pair]
    known = all(isinstance(pad, int) and pad >= 0 for pad in pads)
    fits = 0 not in (known_dims(call) or ())
    return known and fits and attrs["batch_group_count"] == 1 and not asks_for_precision(call)


def _layouts(numbers: Mapping[str, Any], spatial: str) -> tuple[str, str, str]:
    """Dimension numbers as layouts: for each of `lax`'s letters the axis where it lies."""
    specs = numbers["ConvDimensionNumbers"]

    def layout(letters: str, places: Sequence[int]) -> str:
        by_place = dict(zip(places, letters, strict=True))
        return "".join(by_place[axis] for axis in range(len(places)))

    data, kernel, out = (specs[f"{name}_spec"] for name in ("lhs", "rhs", "out"))
    return layout(f"NC{spatial}", data), layout(f"OI{spatial}", kernel), layout(f"NC{spatial}", out)
