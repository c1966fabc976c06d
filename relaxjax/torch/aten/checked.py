"""Linear algebra that also tells whether it succeeded, as decomposed programs have it."""

from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, ndim_of

from .decompositions import cholesky, lu_factor
from .matrices import det, inv, slogdet, solve
from .promotion import cast
from .table import aten


def _told(x: Expr) -> Expr:
    """0 where all numbers of a matrix are finite, and 1 where not.

    PyTorch tells 0 and the place of what fails; so the two agree where both are compared with 0.
    """
    if 0 in dims_of(x):
        return call("zeros", ShapeExpr(dims_of(x)[:-2]), "int32")
    axes = [ndim_of(x) - 2, ndim_of(x) - 1]
    wrong = cast(call("logical_not", call("isfinite", x)), "int32")
    return call("max", wrong, axes)


@aten("linalg_inv_ex.default")
def inv_ex(A: Expr, check_errors: bool = False) -> tuple[Expr, Expr]:  # noqa: N803  # torch's name
    found = inv(A)
    return found, _told(found)


@aten("linalg_cholesky_ex.default")
def cholesky_ex(self: Expr, upper: bool = False, check_errors: bool = False) -> tuple[Expr, Expr]:
    found = cholesky(self, upper)
    return found, _told(found)


@aten("linalg_lu_factor_ex.default")
def lu_factor_ex(
    A: Expr,  # noqa: N803  # torch's name
    pivot: bool = True,
    check_errors: bool = False,
) -> tuple[Expr, Expr, Expr]:
    both, pivots = lu_factor(A, pivot)
    return both, pivots, _told(both)


@aten("linalg_solve_ex.default")
def solve_ex(
    A: Expr,  # noqa: N803  # torch's names
    B: Expr,  # noqa: N803
    left: bool = True,
    check_errors: bool = False,
) -> tuple[Expr, Expr]:
    found = solve(A, B, left)
    in_columns = found if ndim_of(found) == ndim_of(A) else call("expand_dims", found, -1)
    return found, _told(in_columns)


@aten("_linalg_solve_ex.default")
def solve_with_factors(
    A: Expr,  # noqa: N803  # torch's names
    B: Expr,  # noqa: N803
    left: bool = True,
    check_errors: bool = False,
) -> tuple[Expr, Expr, Expr, Expr]:
    found, told = solve_ex(A, B, left)
    return found, *lu_factor(A), told


@aten("_linalg_det.default")
def det_with_factors(A: Expr) -> tuple[Expr, Expr, Expr]:  # noqa: N803  # torch's name
    return det(A), *lu_factor(A)


@aten("_linalg_slogdet.default")
def slogdet_with_factors(A: Expr) -> tuple[Expr, ...]:  # noqa: N803  # torch's name
    return *slogdet(A), *lu_factor(A)
