"""Convolutions, and those that are transposed."""

from collections.abc import Callable, Sequence
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


def batched(x: Expr, count: int, of_batch: Callable[[Expr], Expr]) -> Expr:
    """What becomes of images of `count` spatial axes, or of a single one."""
    if ndim_of(x) == count + 2:
        return of_batch(x)
    return call("squeeze", of_batch(call("expand_dims", x, 0)), [0])


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
    steps, gaps = per_axis(stride, count), per_axis(dilation, count)
    if isinstance(padding, str):
        room = _named_padding(padding, dims_of(weight)[2:], gaps)
    else:
        room = _pairs(per_axis(padding, count))
    name, window = f"nn.conv{count}d", (steps, room, gaps, groups)
    return batched(input, count, lambda x: _with_bias(call(name, x, weight, *window), bias))


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
    steps, room, more, gaps = (
        per_axis(one, count) for one in (stride, padding, output_padding, dilation)
    )
    name, behind, rest = f"nn.conv{count}d_transpose", list(room), [0] * count
    for axis, extra in enumerate(more):
        if extra >= steps[axis]:  # it takes of the padding behind, and what is left is zeros
            behind[axis] = max(room[axis] - extra, 0)
            rest[axis], more[axis] = extra - (room[axis] - behind[axis]), 0

    def transposed(x: Expr) -> Expr:
        found: Expr = call(name, x, weight, steps, [*room, *behind], more, gaps, groups)
        if any(rest):
            widths = [one for width in rest[::-1] for one in (0, width)]
            found = padded(found, widths, "constant", 0)
        return _with_bias(found, bias)

    return batched(input, count, transposed)


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
