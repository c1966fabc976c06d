"""Decompositions of matrices: into triangles, orthonormal columns, eigenvectors.

Vectors have the signs that the machine gives them, which may be others than in PyTorch: a loss that
does not depend on them has the same value and the same gradient.
"""

from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, ShapeExpr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar, where

from .pairs import fixed
from .promotion import cast
from .shapes import expand, transpose
from .slicing import sliced
from .table import aten


def _of_triangle(x: Expr, is_lower: bool) -> Expr:
    """The symmetric matrix of which a triangle is read, with the gradient of the whole one.

    So PyTorch has it: elements that are not read have an adjoint, too.
    """
    half = call("tril", fixed(x)) if is_lower else call("triu", fixed(x))
    other = transpose(call("tril", half, -1) if is_lower else call("triu", half, 1), -2, -1)
    known = where(call("isfinite", x), x, scalar(0, x))
    return half + other + (known - fixed(known))


@aten("linalg_cholesky.default", "cholesky.default")
def cholesky(self: Expr, upper: bool = False) -> Expr:
    lower = call("linalg.cholesky", _of_triangle(self, not upper))
    return transpose(lower, -2, -1) if upper else lower


@aten("linalg_eigvalsh.default")
def eigvalsh(self: Expr, UPLO: str = "L") -> Expr:  # noqa: N803  # torch's name
    return eigh(self, UPLO)[0]


@aten("linalg_eigh.default")
def eigh(self: Expr, UPLO: str = "L") -> tuple[Expr, Expr]:  # noqa: N803  # torch's name
    found = call("linalg.eigh", _of_triangle(self, UPLO.upper() == "L"))
    return found[0], found[1]


@aten("_linalg_eigh.default")
def eigh_of(A: Expr, UPLO: str = "L", compute_v: bool = True) -> tuple[Expr, Expr]:  # noqa: N803
    return eigh(A, UPLO)


@aten("linalg_svdvals.default")
def svdvals(A: Expr, driver: str | None = None) -> Expr:  # noqa: N803  # torch's name
    return call("linalg.svd", A)[1]


@aten("linalg_svd.default")
def svd(
    A: Expr,  # noqa: N803  # torch's name
    full_matrices: bool = True,
    driver: str | None = None,
) -> tuple[Expr, ...]:
    rows, columns = dims_of(A)[-2:]
    if full_matrices and rows != columns:
        raise ValueError(
            f"vectors beside those that a matrix of {rows} rows and {columns} columns has singular "
            "values for, whose directions are free: give `full_matrices=False`"
        )
    found = call("linalg.svd", A)
    return found[0], found[1], found[2]


@aten("_linalg_svd.default")
def svd_of(
    A: Expr,  # noqa: N803  # torch's name
    full_matrices: bool = False,
    compute_uv: bool = True,
    driver: str | None = None,
) -> tuple[Expr, ...]:
    return svd(A, full_matrices and compute_uv)


@aten("svd.default")
def svd_turned(self: Expr, some: bool = True, compute_uv: bool = True) -> tuple[Expr, ...]:
    """With vectors as columns on both sides."""
    if not compute_uv:
        raise ValueError("singular values without vectors: write torch.linalg.svdvals")
    left, values, right = svd(self, not some)
    return left, values, transpose(right, -2, -1)


@aten("linalg_qr.default")
def qr(A: Expr, mode: str = "reduced") -> tuple[Expr, Expr]:  # noqa: N803  # torch's name
    """Orthonormal columns and an upper triangle; what is wider than high is made of its square."""
    rows, columns = dims_of(A)[-2:]
    if mode == "r":
        raise ValueError('a triangle alone has no gradient in PyTorch: give `mode="reduced"`')
    if mode == "complete" and rows != columns:
        raise ValueError(
            f"columns beside those that a matrix of {rows} rows and {columns} columns gives, whose "
            'directions are free: give `mode="reduced"`'
        )
    if not (isinstance(rows, int) and isinstance(columns, int) and rows < columns):
        found = call("linalg.qr", A)
        return found[0], found[1]
    axis = ndim_of(A) - 1
    found = call("linalg.qr", sliced(A, axis, 0, rows))
    rest = call("matmul", transpose(found[0], -2, -1), sliced(A, axis, rows, columns))
    return found[0], call("concat", [found[1], rest], axis)


@aten("qr.default")
def qr_some(self: Expr, some: bool = True) -> tuple[Expr, Expr]:
    return qr(self, "reduced" if some else "complete")


def _factored(x: Expr, pivot: bool) -> tuple[Expr, Expr, Expr]:
    """Both triangles in one matrix, the rows that were swapped from 0 on, and where rows stand."""
    if not pivot:
        raise ValueError("triangles without swapped rows: give `pivot=True`")
    found = get_op("lax.lu")(x)
    return found[0], found[1], found[2]


def _triangles(both: Expr) -> tuple[Expr, Expr]:
    """The lower one, with ones on its diagonal, and the upper one."""
    axis, (rows, columns) = ndim_of(both) - 1, _sizes(both)
    least = min(rows, columns)
    left = call("tril", sliced(both, axis, 0, least), -1)
    ones = Constant(np.eye(rows, least).astype(bool))
    lower = left + cast(ones, dtype_of(both))
    return lower, call("triu", sliced(both, axis - 1, 0, least))


def _sizes(x: Expr) -> tuple[int, int]:
    rows, columns = dims_of(x)[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ValueError(
            f"triangles of a matrix of {rows} rows and {columns} columns, which are not known"
        )
    return rows, columns


def _permutation(order: Expr, like: Expr) -> Expr:
    """The matrix that puts rows back to where they stood."""
    count: Dim = dims_of(order)[-1]
    place = call("expand_dims", call("arange", 0, count, 1, "int64"), 1)
    stands = call("equal", call("expand_dims", cast(order, "int64"), -2), place)
    return cast(stands, dtype_of(like))


@aten("linalg_lu.default")
def lu(A: Expr, pivot: bool = True) -> tuple[Expr, Expr, Expr]:  # noqa: N803  # torch's name
    both, _, order = _factored(A, pivot)
    return _permutation(order, A), *_triangles(both)


@aten("linalg_lu_factor.default")
def lu_factor(A: Expr, pivot: bool = True) -> tuple[Expr, Expr]:  # noqa: N803  # torch's name
    """Both triangles in one matrix, and the rows that were swapped, which torch counts from 1."""
    both, pivots, _ = _factored(A, pivot)
    return both, pivots + scalar(1, pivots)


def _order(pivots: Expr, count: int) -> Expr:
    last = cast(pivots, "int32")
    return get_op("lax.lu_pivots_to_permutation")(last - scalar(1, last), permutation_size=count)


@aten("lu_unpack.default")
def lu_unpack(
    LU_data: Expr,  # noqa: N803  # torch's names
    LU_pivots: Expr,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[Expr, Expr, Expr]:
    """The permutation and both triangles; what is not asked for is empty."""
    empty = call("zeros", ShapeExpr((0,)), dtype_of(LU_data))
    lower, upper = _triangles(LU_data) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, lower, upper
    return _permutation(_order(LU_pivots, _sizes(LU_data)[0]), LU_data), lower, upper


@aten("linalg_lu_solve.default")
def lu_solve(
    LU: Expr,  # noqa: N803  # torch's names
    pivots: Expr,
    B: Expr,  # noqa: N803
    left: bool = True,
    adjoint: bool = False,
) -> Expr:
    if not left:
        turned = lu_solve(LU, pivots, transpose(B, -2, -1), True, not adjoint)
        return transpose(turned, -2, -1)
    swap = _permutation(_order(pivots, _sizes(LU)[0]), LU)
    stack: list[Any] = [*dims_of(call("matmul", LU, B))[:-2]]
    both, right = expand(LU, [*stack, *dims_of(LU)[-2:]]), expand(B, [*stack, *dims_of(B)[-2:]])
    if not adjoint:
        right = call("matmul", transpose(swap, -2, -1), right)
        half = call("linalg.triangular_solve", both, right, True, False, True)
        return call("linalg.triangular_solve", both, half, False, False, False)
    half = call("linalg.triangular_solve", both, right, False, True, False)
    found = call("linalg.triangular_solve", both, half, True, True, True)
    return call("matmul", swap, found)


@aten("lu_solve.default")
def lu_solve_of(self: Expr, LU_data: Expr, LU_pivots: Expr) -> Expr:  # noqa: N803  # torch's names
    return lu_solve(LU_data, LU_pivots, self)
