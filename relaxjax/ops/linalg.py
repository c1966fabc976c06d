"""`R.linalg`: what matrices are solved by, and what is known of them. TVM has no such operators.

A matrix lies in the last two axes, and the axes before them are a stack of matrices. What has 16
bits is computed in 32.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.types import TensorType, TupleType

from .arrays import widened
from .cost_rules import counting, dims_at, elements
from .declare import OpError, op
from .emit import call, scalar
from .linear_algebra import transposed
from .shapes import common_dtype, common_vdevice, dims_text
from .traced import traced_gradient
from .unary import require_float


def require_square(name: str, ty: TensorType) -> None:
    """Raise where a tensor is known to hold no square matrices of floats."""
    require_float(ty, name)
    require_matrices(name, ty)
    if ty.dims is not None and can_prove_different(*ty.dims[-2:]):
        raise OpError(f"`{name}` must hold square matrices, but its shape is {dims_text(ty.dims)}")


def require_matrices(name: str, ty: TensorType) -> None:
    """Raise where a tensor is known to have too few dimensions for a matrix."""
    if ty.ndim in (0, 1):
        raise OpError(f"`{name}` must have at least 2 dimensions, found {ty.ndim}")


def widely(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` in float32 at least, its results in the dtype that was given."""

    def computed(x: Any, *others: Any, **attrs: Any) -> Any:
        result = function(widened(x), *map(widened, others), **attrs)
        if isinstance(result, tuple):
            return tuple(item.astype(x.dtype) for item in result)
        return result.astype(x.dtype)

    return computed


def cubic(share: float) -> Any:
    """A share of n^3 multiplications and additions for each matrix of the first argument."""

    def flops(call: Call) -> Dim:
        size = elements(call.args[0].ty) * dims_at(call, 0)[-1]
        return size * 2 // round(1 / share) if share < 1 else size * 2 * round(share)

    flops.__doc__ = f"{2 * share:.2g} n^3 for each matrix of n rows."
    return counting(flops)


def _cholesky_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    """The symmetric part of L^-T P L^-1, of P the lower half of L^T g."""
    product = call("matmul", transposed(y), call("tril", g))
    half = scalar(0.5, x)
    lower = half * (call("tril", product) + call("tril", product, -1))
    left = call("linalg.triangular_solve", y, lower, transpose=True)
    both = transposed(call("linalg.triangular_solve", y, transposed(left), transpose=True))
    return half * (both + transposed(both))


@op(
    "relax.linalg.cholesky",
    lower=widely(lax.linalg.cholesky),
    gradient=_cholesky_gradient,
    cost=cubic(1 / 6),
)
def cholesky(x: TensorType) -> TensorType:
    """Lower triangle L with x = L L^T, of the symmetric part of x; NaN unless that is positive."""
    require_square("x", x)
    return x


def _triangular_solve(a: Any, b: Any, lower: bool, transpose: bool, unit_diagonal: bool) -> Any:
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=transpose, unit_diagonal=unit_diagonal
    )


def _triangular_solve_gradient(
    g: Expr, x: Expr, a: Expr, b: Expr, lower: bool, transpose: bool, unit_diagonal: bool
) -> tuple[Expr, Expr]:
    to_b = call("linalg.triangular_solve", a, g, lower, not transpose, unit_diagonal)
    left, right = (x, to_b) if transpose else (to_b, x)
    whole = -call("matmul", left, transposed(right))
    offset = 1 if unit_diagonal else 0
    to_a = call("tril", whole, -offset) if lower else call("triu", whole, offset)
    return to_a, to_b


def _substituted(call: Call) -> Dim:
    """One flop for each element of the result and each row of the matrix."""
    return elements(call.ty) * dims_at(call, 0)[-1]


@op(
    "relax.linalg.triangular_solve",
    lower=widely(_triangular_solve),
    gradient=_triangular_solve_gradient,
    cost=counting(_substituted),
)
def triangular_solve(
    a: TensorType,
    b: TensorType,
    lower: bool = True,
    transpose: bool = False,
    unit_diagonal: bool = False,
) -> TensorType:
    """Solution x of a x = b, of which only a triangle of a is read: the lower or the upper one.

    transpose: solve a^T x = b.
    unit_diagonal: take the diagonal of a for ones.
    """
    return _solution(a, b)


def _solution(a: TensorType, b: TensorType) -> TensorType:
    """The type of x in a x = b: that of b, whose stack of matrices is as large as that of a."""
    require_square("a", a)
    require_float(b, "b")
    require_matrices("b", b)
    dtype, vdevice = common_dtype(a=a, b=b), common_vdevice(a, b)
    if a.ndim >= 0 and b.ndim >= 0 and a.ndim != b.ndim:
        raise OpError(f"`a` and `b` must have the same number of dimensions, found {a.ndim} and "
                      f"{b.ndim}: give a vector as a matrix of one column")  # fmt: skip
    if a.dims is not None and b.dims is not None:
        pairs = zip(a.dims[:-1], b.dims[:-1], strict=True)
        if any(can_prove_different(*pair) for pair in pairs):
            raise OpError(
                "`a` and `b` must have the same dimensions but for the last, found "
                f"{dims_text(a.dims)} and {dims_text(b.dims)}"
            )
    return TensorType(b.dims, dtype, b.ndim, vdevice)


def _solve_gradient(g: Expr, x: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    to_b = call("linalg.solve", transposed(a), g)
    return -call("matmul", to_b, transposed(x)), to_b


@op(
    "relax.linalg.solve",
    lower=widely(jnp.linalg.solve),
    gradient=_solve_gradient,
    cost=cubic(1 / 3),
)
def solve(a: TensorType, b: TensorType) -> TensorType:
    """Solution x of a x = b, with the columns of b for right sides; not finite for a singular a."""
    return _solution(a, b)


def _inv_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return -call("matmul", transposed(y), call("matmul", g, transposed(y)))


@op("relax.linalg.inv", lower=widely(jnp.linalg.inv), gradient=_inv_gradient, cost=cubic(1))
def inv(x: TensorType) -> TensorType:
    """Inverse; not finite for a singular x. `solve` gives a product with it in fewer flops."""
    require_square("x", x)
    return x


def _number_a_matrix(x: TensorType) -> TensorType:
    require_square("x", x)
    dims = None if x.dims is None else x.dims[:-2]
    return TensorType(dims, x.dtype, max(x.ndim - 2, -1), x.vdevice)


@op(
    "relax.linalg.det",
    lower=widely(jnp.linalg.det),
    gradient=traced_gradient("relax.linalg.det"),
    cost=cubic(1 / 3),
)
def det(x: TensorType) -> TensorType:
    """Determinant. Its derivative is the matrix of cofactors, which a singular x has, too."""
    return _number_a_matrix(x)


def _slogdet_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    """That of the logarithm: the sign moves nowhere that it has a derivative."""
    return call("expand_dims", g[1], [-2, -1]) * transposed(call("linalg.inv", x))


@op(
    "relax.linalg.slogdet",
    lower=widely(lambda x: tuple(jnp.linalg.slogdet(x))),
    gradient=_slogdet_gradient,
    cost=cubic(1 / 3),
)
def slogdet(x: TensorType) -> TupleType:
    """Sign of the determinant, and the logarithm of its absolute value, which cannot overflow."""
    number = _number_a_matrix(x)
    return TupleType((number, number))
