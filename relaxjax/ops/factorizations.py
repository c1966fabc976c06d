"""`R.linalg`: factorizations into matrices of orthonormal columns, and the length of vectors."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.types import TensorType, TupleType

from .arrays import widened
from .axis_layouts import REDUCED
from .conversions import Axes
from .cost_rules import per_input
from .declare import OpError, op
from .emit import call, scalar, tensor_type, where
from .linalg import cubic, require_matrices, require_square, widely
from .shapes import at_most, bounded, dims_text
from .statistical import reduced_type, with_reduced_axes
from .traced import traced_gradient
from .unary import require_float


@op(
    "relax.linalg.eigh",
    lower=widely(lambda x: tuple(jnp.linalg.eigh(x))),
    gradient=traced_gradient("relax.linalg.eigh"),
    cost=cubic(9),
)
def eigh(x: TensorType) -> TupleType:
    """Eigenvalues in ascending order, and eigenvectors as columns, of the symmetric part of x.

    Where eigenvalues are equal, their eigenvectors have no derivative. A gradient that goes through
    the eigenvectors is not finite there; that of the eigenvalues alone is.
    """
    require_square("x", x)
    values = None if x.dims is None else x.dims[:-1]
    return TupleType((TensorType(values, x.dtype, max(x.ndim - 1, -1), x.vdevice), x))


def _thin(x: TensorType) -> tuple[tuple[Dim, ...], Dim, Dim, Dim] | None:
    """The stack, the rows, the columns and the smaller of the two, where they are known."""
    require_float(x, "x")
    require_matrices("x", x)
    if x.dims is None:
        return None
    *stack, rows, columns = x.dims
    return tuple(stack), rows, columns, bounded(rows, columns)


@op(
    "relax.linalg.svd",
    lower=widely(lambda x: tuple(jnp.linalg.svd(x, full_matrices=False))),
    gradient=traced_gradient("relax.linalg.svd"),
    cost=cubic(12),
)
def svd(x: TensorType) -> TupleType:
    """Singular values s in descending order between u and vh: x = u diag(s) vh, as few as suffice.

    Where singular values are equal, their vectors have no derivative. A gradient that goes through
    the vectors is not finite there; that of the singular values alone is.
    """
    sizes = _thin(x)
    if sizes is None:
        unknown = TensorType(None, x.dtype, x.ndim, x.vdevice)
        return TupleType(
            (unknown, TensorType(None, x.dtype, max(x.ndim - 1, -1), x.vdevice), unknown)
        )
    stack, rows, columns, least = sizes
    shapes = ((*stack, rows, least), (*stack, least), (*stack, least, columns))
    return TupleType(tuple(TensorType(dims, x.dtype, vdevice=x.vdevice) for dims in shapes))


_qr_pullback = traced_gradient("relax.linalg.qr")


def _qr_gradient(g: Expr, out: Var, x: Expr) -> Any:
    """That of a matrix with no more columns than rows: q does not tell of further ones."""
    dims = tensor_type(x).dims
    if dims is None or not at_most(dims[-1], dims[-2]):
        shape = "unknown" if dims is None else dims_text(dims)
        raise OpError(
            "relax.linalg.qr has no gradient where `x` may have more columns than rows, and its "
            f"shape is {shape}: factorize the columns that q needs"
        )
    return _qr_pullback(g, out, x)


@op(
    "relax.linalg.qr",
    lower=widely(lambda x: tuple(jnp.linalg.qr(x))),
    gradient=_qr_gradient,
    cost=cubic(2),
)
def qr(x: TensorType) -> TupleType:
    """Orthonormal columns q and an upper triangle r, as few as suffice: x = q r.

    The gradient is that of matrices with no more columns than rows.
    """
    sizes = _thin(x)
    if sizes is None:
        unknown = TensorType(None, x.dtype, x.ndim, x.vdevice)
        return TupleType((unknown, unknown))
    stack, rows, columns, least = sizes
    shapes = ((*stack, rows, least), (*stack, least, columns))
    return TupleType(tuple(TensorType(dims, x.dtype, vdevice=x.vdevice) for dims in shapes))


def _norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else tuple(axis)
    sizes = lax.abs(widened(x))
    largest = jnp.max(sizes, axes, keepdims=True, initial=0)
    found = largest * _length(sizes / _divisor(largest), axes)
    return (found if keepdims else lax.squeeze(found, axes)).astype(x.dtype)


def _divisor(largest: Any) -> Any:
    """What vectors are divided by, so that their squares neither overflow nor vanish."""
    one = jnp.ones_like(largest)
    return jnp.where((largest > 0) & jnp.isfinite(largest), largest, one)


def _length(sizes: Any, axes: Any) -> Any:
    """Of a vector of zeros 1, where the square root has a slope."""
    squares = jnp.sum(lax.square(sizes), axes, keepdims=True)
    return lax.sqrt(jnp.where(squares > 0, squares, jnp.ones_like(squares)))


def _norm_gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    """The direction of x; of a vector of zeros the subgradient 0, and NaN where x has one."""
    along, length = (with_reduced_axes(item, axis, keepdims) for item in (g, y))
    zero = scalar(0, x)
    is_zero = call("equal", length, zero)
    return where(is_zero, zero, along * (x / where(is_zero, scalar(1, x), length)))


@op(
    "relax.linalg.norm",
    layout=REDUCED,
    lower=_norm,
    gradient=_norm_gradient,
    fusion="reduction",
    facts={"nonnegative": True, "turns": True},
    cost=per_input(3),
)
def norm(x: TensorType, axis: Axes | None = None, keepdims: bool = False) -> TensorType:
    """Length of vectors along axes, or of all elements: sqrt(sum of x * x), without overflow.

    Other norms are reductions: `R.sum(R.abs(x))`, and `R.max(R.abs(x))`.
    """
    require_float(x, "x")
    return reduced_type(x, axis, keepdims, x.dtype)
