"""Linear algebra, and distances between all rows of two matrices."""

import math

import numpy as np

from relaxjax.ir.expr import Constant, Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar, where

from .magnitudes import magnitude
from .promotion import cast, is_floating, promoted
from .reductions import vector_norm
from .shapes import broadcast_sizes, expand, place_of, transpose
from .spectra import conj
from .table import aten


@aten("linalg_inv.default", "inverse.default")
def inv(self: Expr | None = None, A: Expr | None = None) -> Expr:  # noqa: N803  # torch's name
    return call("linalg.inv", A if self is None else self)


def identity(x: Expr) -> Expr:
    """The identity matrices that are as large as others, in one that broadcasts to them."""
    rows, columns = dims_of(x)[-2:]
    return call("eye", rows, columns, 0, dtype_of(x))


@aten("linalg_det.default", "det.default")
def det(self: Expr | None = None, A: Expr | None = None) -> Expr:  # noqa: N803  # torch's name
    x = A if self is None else self
    assert x is not None
    return _of_no_rows("ones", x) if dims_of(x)[-1] == 0 else call("linalg.det", x)


def _of_no_rows(fill: str, x: Expr) -> Expr:
    """What an empty product of numbers is, or an empty sum."""
    return call(fill, ShapeExpr(dims_of(x)[:-2]), dtype_of(x))


@aten("linalg_slogdet.default")
def slogdet(A: Expr) -> list[Expr]:  # noqa: N803  # torch's name
    if dims_of(A)[-1] == 0:
        return [_of_no_rows("ones", A), _of_no_rows("zeros", A)]
    sign_and_logarithm = call("linalg.slogdet", A)
    return [sign_and_logarithm[0], sign_and_logarithm[1]]


@aten("linalg_solve.default")
def solve(A: Expr, B: Expr, left: bool = True) -> Expr:  # noqa: N803  # torch's name
    if not left:
        return transpose(solve(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)
    if ndim_of(B) == ndim_of(A) - 1:
        return call("squeeze", call("linalg.solve", A, call("expand_dims", B, -1)), [-1])
    return call("linalg.solve", A, B)


@aten("cdist.default", "_cdist_forward.default")
def cdist(x1: Expr, x2: Expr, p: float = 2.0, compute_mode: int | None = None) -> Expr:
    first, second = promoted(x1, x2)
    apart = call("expand_dims", first, -2) - call("expand_dims", second, -3)
    return _length(apart, p)


def _length(apart: Expr, p: float) -> Expr:
    """The lengths of rows along the last axis.

    Each of the largest elements has the whole adjoint of the length by `inf`; a norm shares it out.
    """
    if p != math.inf:
        return vector_norm(apart, p, [-1], False)
    sizes = call("grad.once", magnitude(apart))
    fixed = call("grad.no_grad", sizes)
    largest = call("max", fixed, [-1], True)
    moved = where(call("equal", fixed, largest), sizes - fixed, scalar(0, sizes))
    return call("squeeze", largest, [-1]) + call("sum", moved, [-1])


@aten("dist.default")
def dist(self: Expr, other: Expr, p: float = 2.0) -> Expr:
    first, second = promoted(self, other)
    return vector_norm(first - second, p, None, False)


@aten("logdet.default")
def logdet(self: Expr) -> Expr:
    """The logarithm of the determinant, NaN where that is below 0."""
    sign, logarithm = slogdet(self)
    return where(sign < scalar(0, sign), scalar(math.nan, sign), logarithm)


@aten("linalg_solve_triangular.default")
def solve_triangular(
    self: Expr,
    B: Expr,  # noqa: N803  # torch's name
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Expr:
    if not left:
        turned = transpose(self, -2, -1), transpose(B, -2, -1)
        return transpose(solve_triangular(*turned, not upper, True, unitriangular), -2, -1)
    matrix, right = _of_one_stack(self, B)
    return call("linalg.triangular_solve", matrix, right, not upper, False, unitriangular)


@aten("triangular_solve.default")
def triangular_solve(
    self: Expr,
    A: Expr,  # noqa: N803  # torch's name
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Expr, Expr]:
    """The solution, and the matrix again."""
    matrix, right = _of_one_stack(A, self)
    found = call("linalg.triangular_solve", matrix, right, not upper, transpose, unitriangular)
    return found, matrix


@aten("cholesky_inverse.default")
def cholesky_inverse(self: Expr, upper: bool = False) -> Expr:
    """The inverse of the matrix of which the Cholesky factor is given."""
    return cholesky_solve(identity(self), self, upper)


@aten("cholesky_solve.default")
def cholesky_solve(self: Expr, input2: Expr, upper: bool = False) -> Expr:
    """The solution x of a x = b, of which the Cholesky factor of a is given.

    The gradient is that of the triangle which is read, and 0 beside it. PyTorch's is that of the
    product of the whole factor, so it has further elements where a factor is a parameter itself.
    """
    factor, right = _of_one_stack(input2, self)
    half = call("linalg.triangular_solve", factor, right, not upper, upper, False)
    return call("linalg.triangular_solve", factor, half, not upper, not upper, False)


def _of_one_stack(matrix: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both with the axes in front that they broadcast to."""

    def spread(x: Expr, other: Expr) -> Expr:
        ndim = max(ndim_of(x), ndim_of(other))
        first, second = ([*[1] * (ndim - ndim_of(one)), *dims_of(one)][:-2] for one in (x, other))
        stack = [two if one == 1 else one for one, two in zip(first, second, strict=True)]
        return expand(x, [*stack, *dims_of(x)[-2:]])

    return spread(matrix, right), spread(right, matrix)


@aten("linalg_cross.default")
def cross(self: Expr, other: Expr, dim: int = -1) -> Expr:
    sizes = broadcast_sizes(self, other)
    first, second = (expand(one, sizes) for one in promoted(self, other))

    def part(x: Expr, place: int) -> Expr:
        return call("take", x, scalar(place, call("arange", 0, 1, 1, "int64")), dim)

    parts = [
        part(first, (i + 1) % 3) * part(second, (i + 2) % 3)
        - part(first, (i + 2) % 3) * part(second, (i + 1) % 3)
        for i in range(3)
    ]
    return call("stack", parts, dim)


@aten("cross.default")
def cross_along_any(self: Expr, other: Expr, dim: int | None = None) -> Expr:
    """Along the first axis of length 3, if none is said."""
    if dim is None:
        dim = next((axis for axis, size in enumerate(dims_of(self)) if size == 3), None)
    if dim is None:
        raise ValueError(f"no axis of {dims_of(self)} has the length 3: give `dim`")
    return cross(self, other, dim)


@aten("linalg_vecdot.default")
def vecdot(x: Expr, y: Expr, dim: int = -1) -> Expr:
    first, second = promoted(x, y)
    found = conj(first) * second
    return call("sum", found, [place_of(dim, ndim_of(found))])


@aten("pdist.default")
def pdist(self: Expr, p: float = 2.0) -> Expr:
    """The distances of all pairs of rows, each pair once."""
    count = dims_of(self)[0]
    if not isinstance(count, int):
        raise ValueError(f"distances of all pairs of {count} rows, which are not known: use cdist")
    places = np.triu_indices(count, 1)
    first, second = (call("take", self, Constant(one.astype("int64")), 0) for one in places)
    return _length(first - second, p)


@aten("linalg_vander.default")
def linalg_vander(x: Expr, N: int | None = None) -> Expr:  # noqa: N803  # torch's name
    """The powers of numbers from 0 on, each a column."""
    count = dims_of(x)[-1] if N is None else N
    if not isinstance(count, int):
        raise ValueError(f"the first {count} powers, how many is not known: give `N`")
    base = x if is_floating(dtype_of(x)) else cast(x, "int64")
    powers: list[Expr] = [call("ones_like", base)]
    for _ in range(count - 1):
        powers.append(powers[-1] * base)
    return call("stack", powers, -1)


@aten("vander.default")
def vander(x: Expr, N: int | None = None, increasing: bool = False) -> Expr:  # noqa: N803
    """The powers of numbers, by default from the highest one down to 0."""
    if N == 0:
        return call(
            "zeros", [dims_of(x)[0], 0], dtype_of(x) if is_floating(dtype_of(x)) else "int64"
        )
    powers = linalg_vander(x, N)
    return powers if increasing else call("flip", powers, 1)
