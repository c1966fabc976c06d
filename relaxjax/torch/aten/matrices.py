"""Linear algebra, and distances between all rows of two matrices.

Vectors of decompositions are not there: their signs are free.
"""

import math

import numpy as np

from relaxjax.ir.expr import Constant, Expr
from relaxjax.ops.emit import call, dims_of, ndim_of, scalar, where

from .promotion import promoted
from .reductions import vector_norm
from .shapes import broadcast_sizes, expand, permute, place_of, transpose
from .table import aten


@aten("linalg_inv.default", "inverse.default")
def inv(self: Expr | None = None, A: Expr | None = None) -> Expr:  # noqa: N803  # torch's name
    return call("linalg.inv", A if self is None else self)


@aten("linalg_det.default", "det.default")
def det(self: Expr | None = None, A: Expr | None = None) -> Expr:  # noqa: N803  # torch's name
    return call("linalg.det", A if self is None else self)


@aten("linalg_slogdet.default")
def slogdet(A: Expr) -> list[Expr]:  # noqa: N803  # torch's name
    sign_and_logarithm = call("linalg.slogdet", A)
    return [sign_and_logarithm[0], sign_and_logarithm[1]]


@aten("linalg_solve.default")
def solve(A: Expr, B: Expr, left: bool = True) -> Expr:  # noqa: N803  # torch's name
    if not left:
        raise ValueError("a matrix to the right of what is sought: transpose both sides")
    if ndim_of(B) == ndim_of(A) - 1:
        return call("squeeze", call("linalg.solve", A, call("expand_dims", B, -1)), [-1])
    return call("linalg.solve", A, B)


@aten("linalg_cholesky.default", "cholesky.default")
def cholesky(self: Expr, upper: bool = False) -> Expr:
    lower = call("linalg.cholesky", self)
    ndim = ndim_of(self)
    return permute(lower, [*range(ndim - 2), ndim - 1, ndim - 2]) if upper else lower


@aten("linalg_eigvalsh.default")
def eigvalsh(self: Expr, UPLO: str = "L") -> Expr:  # noqa: N803  # torch's name
    return call("linalg.eigh", self)[0]


@aten("cdist.default", "_cdist_forward.default")
def cdist(x1: Expr, x2: Expr, p: float = 2.0, compute_mode: int | None = None) -> Expr:
    first, second = promoted(x1, x2)
    apart = call("expand_dims", first, -2) - call("expand_dims", second, -3)
    return vector_norm(apart, p, [-1], False)


@aten("dist.default")
def dist(self: Expr, other: Expr, p: float = 2.0) -> Expr:
    first, second = promoted(self, other)
    return vector_norm(first - second, p, None, False)


@aten("linalg_svdvals.default")
def svdvals(A: Expr, driver: str | None = None) -> Expr:  # noqa: N803  # torch's name
    return call("linalg.svd", A)[1]


@aten("logdet.default")
def logdet(self: Expr) -> Expr:
    """The logarithm of the determinant, NaN where that is below 0."""
    sign_and_logarithm = call("linalg.slogdet", self)
    sign, logarithm = sign_and_logarithm[0], sign_and_logarithm[1]
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


@aten("cholesky_solve.default")
def cholesky_solve(self: Expr, input2: Expr, upper: bool = False) -> Expr:
    """The solution x of a x = b, of which the Cholesky factor of a is given."""
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
    found = first * second
    return call("sum", found, [place_of(dim, ndim_of(found))])


@aten("pdist.default")
def pdist(self: Expr, p: float = 2.0) -> Expr:
    """The distances of all pairs of rows, each pair once."""
    count = dims_of(self)[0]
    if not isinstance(count, int):
        raise ValueError(f"distances of all pairs of {count} rows, which are not known: use cdist")
    places = np.triu_indices(count, 1)
    first, second = (call("take", self, Constant(one.astype("int64")), 0) for one in places)
    return vector_norm(first - second, p, [-1], False)
