"""Convolutions, and those that are transposed."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, ndim_of

from .padding import padded
from .shapes import shaped
from .table import aten


def _pairs(padding: Sequence[Dim]) -> list[Dim]:
    """Padding in front on each axis, then behind, as Relax takes it."""
    return [*padding, *padding]


def per_axis(value: Any, count: int) -> list[Any]:
    """One value for each of `count` spatial axes, where torch takes a single one for all."""
    listed = [value] if isinstance(value, int) else list(value)
    return listed * count if len(listed) == 1 else listed


@aten(
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "conv1d.padding",
    "conv2d.padding",
    "conv3d.padding",
)
def conv(
    input: Expr,  # torch's name
    weight: Expr,
    bias: Expr | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Expr:
    count = ndim_of(weight) - 2
    alone = ndim_of(input) == count + 1
    data = call("expand_dims", input, 0) if alone else input
    steps, gaps = per_axis(stride, count), per_axis(dilation, count)
    if isinstance(padding, str):
        room = _named_padding(padding, dims_of(weight)[2:], gaps)
    else:
        room = _pairs(per_axis(padding, count))
    result = _with_bias(call(f"nn.conv{count}d", data, weight, steps, room, gaps, groups), bias)
    return call("squeeze", result, [0]) if alone else result


def _named_padding(padding: str, kernel: Sequence[Dim], gaps: Sequence[Any]) -> list[Dim]:
    """ "same" leaves the length as it is, and the odd one of the padding goes behind."""
    if padding == "valid":
        return [0] * (2 * len(kernel))
    totals = [gap * (size - 1) for gap, size in zip(gaps, kernel, strict=True)]
    return [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]


def _with_bias(result: Expr, bias: Expr | None) -> Expr:
    if bias is None:
        return result
    return result + shaped(bias, [1, -1, *[1] * (ndim_of(result) - 2)])


@aten("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    input: Expr,
    weight: Expr,
    bias: Expr | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Expr:
    count = ndim_of(weight) - 2
    alone = ndim_of(input) == count + 1
    data = call("expand_dims", input, 0) if alone else input
    steps, room, more, gaps = (
        per_axis(one, count) for one in (stride, padding, output_padding, dilation)
    )
    name, behind, rest = f"nn.conv{count}d_transpose", list(room), [0] * count
    for axis, extra in enumerate(more):
        if extra >= steps[axis]:  # it takes of the padding behind, and what is left is zeros
            behind[axis] = max(room[axis] - extra, 0)
            rest[axis], more[axis] = extra - (room[axis] - behind[axis]), 0
    result: Expr = call(name, data, weight, steps, [*room, *behind], more, gaps, groups)
    if any(rest):
        result = padded(result, [one for width in rest[::-1] for one in (0, width)], "constant", 0)
    result = _with_bias(result, bias)
    return call("squeeze", result, [0]) if alone else result


@aten("convolution.default")
def convolution(
    input: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Expr:
    if transposed:
        options = stride, padding, output_padding, groups, dilation
        return conv_transpose(input, weight, bias, *options)
    return conv(input, weight, bias, stride, padding, dilation, groups)
