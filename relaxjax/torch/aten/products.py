"""Products of matrices."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of
from relaxjax.ops.shapes import element_count

from .binary import mul, times
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


@aten("bilinear.default")
def bilinear(input1: Expr, input2: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    found = call("einsum", [input1, weight, input2], "...i,oij,...j->...o")
    return found if bias is None else found + bias
