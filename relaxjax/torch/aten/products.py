"""Products of matrices, and convolutions."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of
from relaxjax.ops.shapes import element_count

from .binary import mul, times
from .padding import padded
from .promotion import promoted
from .shapes import permute, place_of, shaped, t
from .table import aten


def product(x: Expr, y: Expr) -> Expr:
    return call("matmul", x, y)


for _name in ("mm", "bmm"):
    aten(f"{_name}.default")(lambda self, mat2: product(self, mat2))


@aten("matmul.default")
def matmul(self: Expr, other: Expr) -> Expr:
    return product(self, other)


@aten("mv.default")
def mv(self: Expr, vec: Expr) -> Expr:
    return product(self, vec)


@aten("inner.default")
def inner(self: Expr, other: Expr) -> Expr:
    """The sum of products along the last axes of both."""
    if not ndim_of(self) or not ndim_of(other):
        return self * other
    return tensordot(self, other, [ndim_of(self) - 1], [ndim_of(other) - 1])


@aten("tensordot.default")
def tensordot(self: Expr, other: Expr, dims_self: Sequence[int], dims_other: Sequence[int]) -> Expr:
    """The sum of products along pairs of axes, of which one may have the length 1."""
    left = [place_of(dim, ndim_of(self)) for dim in dims_self]
    right = [place_of(dim, ndim_of(other)) for dim in dims_other]
    x, y = self, other
    for one, two in zip(left, right, strict=True):
        lengths = dims_of(x)[one], dims_of(y)[two]
        if lengths[0] != lengths[1] and lengths[1] == 1:
            x = call("sum", x, [one], True)
        elif lengths[0] != lengths[1] and lengths[0] == 1:
            y = call("sum", y, [two], True)
    rows = [axis for axis in range(ndim_of(x)) if axis not in left]
    columns = [axis for axis in range(ndim_of(y)) if axis not in right]
    sizes = [*(dims_of(x)[axis] for axis in rows), *(dims_of(y)[axis] for axis in columns)]
    count = element_count([dims_of(x)[axis] for axis in left])
    first = shaped(permute(x, [*rows, *left]), [element_count(sizes[: len(rows)]), count])
    second = shaped(permute(y, [*right, *columns]), [count, element_count(sizes[len(rows) :])])
    return shaped(product(first, second), sizes)


@aten("kron.default")
def kron(self: Expr, other: Expr) -> Expr:
    """Each element of one times all of the other, as blocks."""
    x, y = promoted(self, other)
    ndim = max(ndim_of(x), ndim_of(y))
    sizes = [[*[1] * (ndim - ndim_of(one)), *dims_of(one)] for one in (x, y)]
    first = shaped(x, [size for one in sizes[0] for size in (one, 1)])
    second = shaped(y, [size for one in sizes[1] for size in (1, one)])
    found = mul(first, second)
    return shaped(found, [one * other for one, other in zip(*sizes, strict=True)])


@aten("linalg_multi_dot.default", "chain_matmul.default")
def multi_dot(
    tensors: Sequence[Expr] | None = None, matrices: Sequence[Expr] | None = None
) -> Expr:
    first, *rest = list(tensors or matrices or ())
    for one in rest:
        first = product(first, one)
    return first


@aten("linalg_matrix_power.default", "matrix_power.default")
def matrix_power(self: Expr | None = None, n: int = 1, A: Expr | None = None) -> Expr:  # noqa: N803  # torch's name
    """By squares, as many products as the power has digits in base 2."""
    x = A if self is None else self
    assert x is not None
    base = call("linalg.inv", x) if n < 0 else x
    found, left = None, abs(n)
    while left:
        if left % 2:
            found = base if found is None else product(found, base)
        left //= 2
        base = product(base, base) if left else base
    if found is not None:
        return found
    one = call("eye", dims_of(x)[-1], None, 0, dtype_of(x))
    return call("broadcast_to", one, ShapeExpr(dims_of(x)))


@aten("addr.default")
def addr(self: Expr, vec1: Expr, vec2: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    total = times(outer(vec1, vec2), alpha)
    return total if beta == 0 else times(self, beta) + total


@aten("addbmm.default")
def addbmm(self: Expr, batch1: Expr, batch2: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    total = times(call("sum", product(batch1, batch2), [0]), alpha)
    return total if beta == 0 else times(self, beta) + total


@aten("outer.default", "ger.default")
def outer(self: Expr, vec2: Expr) -> Expr:
    return call("expand_dims", self, 1) * call("expand_dims", vec2, 0)


@aten("linear.default")
def linear(input: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    result = product(input, t(weight))
    return result if bias is None else result + bias


@aten("addmm.default", "addmv.default", "baddbmm.default")
def addmm(
    self: Expr,
    mat1: Expr | None = None,
    mat2: Expr | None = None,
    beta: Any = 1,
    alpha: Any = 1,
    **named: Expr,
) -> Expr:
    left, right = (one for one in (mat1, mat2, *named.values()) if one is not None)
    total = times(product(left, right), alpha)
    return total if beta == 0 else times(self, beta) + total


@aten("einsum.default")
def einsum(equation: str, tensors: Sequence[Expr], path: Any = None) -> Expr:
    return call("einsum", list(tensors), equation.replace(" ", ""))


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


@aten("bilinear.default")
def bilinear(input1: Expr, input2: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    found = call("einsum", [input1, weight, input2], "...i,oij,...j->...o")
    return found if bias is None else found + bias
