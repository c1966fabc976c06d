"""Products of matrices and tensors."""

import math
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.types import TensorType

from .arrays import cast, jax_dtype
from .conversions import DType
from .cost_rules import ELEMENTWISE, counting, dims_at, elements
from .declare import OpError, op, sugar
from .emit import call, dtype_of, ndim_of
from .placements import of_product
from .scaling import MATRIX_PRODUCT
from .shapes import broadcast_dims, common_dtype, common_vdevice, element_count, require_ndim

# With fewer products for each matrix of a stack, these take up to 12 times as long one by one.
_TINY = 2**9


def _matmul(x1: Any, x2: Any, out_dtype: str | None) -> Any:
    if x1.dtype != x2.dtype:
        x1, x2 = cast(x1, out_dtype), cast(x2, out_dtype)
    target = x1.dtype if out_dtype is None else jax_dtype(out_dtype)
    wide = target if target.itemsize >= x1.dtype.itemsize else x1.dtype
    return cast(_folded_matmul(x1, x2, wide), target)


def _folded_matmul(x1: Any, x2: Any, dtype: Any) -> Any:
    """Batch dimensions before a single matrix made one: XLA's backward of the plain form copies.

    So does it with a stack of matrices, unless the rows that they have in common are repeated.
    """
    if x1.ndim == 2 < x2.ndim and _are_few((*x1.shape, x2.shape[-1])):
        x1 = jnp.broadcast_to(x1, (*x2.shape[:-2], *x1.shape))
    if x1.ndim < 3 or x2.ndim != 2:
        return jnp.matmul(x1, x2, preferred_element_type=dtype)
    rows = lax.reshape(x1, (element_count(x1.shape[:-1]), x1.shape[-1]))
    product = jnp.matmul(rows, x2, preferred_element_type=dtype)
    return lax.reshape(product, (*x1.shape[:-1], x2.shape[-1]))


def _are_few(lengths: Iterable[Any]) -> bool:
    """Whether rows are no more than a matrix has columns, which are known, and not tiny."""
    known = [length for length in lengths if isinstance(length, int)]
    return len(known) == 3 and known[0] <= known[2] and math.prod(known) >= _TINY


def transposed(x: Expr) -> Expr:
    """`x` with its last two axes swapped."""
    ndim = ndim_of(x)
    return call("permute_dims", x, [*range(ndim - 2), ndim - 1, ndim - 2])


def _matmul_gradient(
    g: Expr, z: Expr, x: Expr, y: Expr, out_dtype: str | None
) -> tuple[Expr, Expr]:
    """(g @ y^T, x^T @ g), with vectors made matrices first."""
    x_dtype, y_dtype = (None, None) if out_dtype is None else (dtype_of(x), dtype_of(y))
    x_ndim, y_ndim = ndim_of(x), ndim_of(y)
    if x_ndim == 1 and y_ndim == 1:
        return _dot_gradient(g, x, y, out_dtype)
    if x_ndim == 1:
        column, rows = call("expand_dims", x, 1), call("expand_dims", g, -2)
        to_x = call("matmul", rows, transposed(y), x_dtype)
        return to_x, call("matmul", column, rows, y_dtype)
    if y_ndim == 1:
        row, columns = call("expand_dims", y, 0), call("expand_dims", g, -1)
        to_x = call("matmul", columns, row, x_dtype)
        return to_x, call("squeeze", call("matmul", transposed(x), columns, y_dtype), -1)
    to_x = call("matmul", g, transposed(y), x_dtype)
    return to_x, call("matmul", transposed(x), g, y_dtype)


def _dot_gradient(g: Expr, x: Expr, y: Expr, out_dtype: str | None) -> tuple[Expr, Expr]:
    if out_dtype is None:
        return g * y, g * x
    to_x, to_y = g * call("astype", y, out_dtype), g * call("astype", x, out_dtype)
    return call("astype", to_x, dtype_of(x)), call("astype", to_y, dtype_of(y))


def _products(call: Call) -> Dim:
    """A multiplication and an addition for each element of the result and the summed axis."""
    return elements(call.ty) * dims_at(call, 0)[-1] * 2


@op(
    "relax.matmul",
    scaling=MATRIX_PRODUCT,
    places=of_product,
    lower=_matmul,
    gradient=_matmul_gradient,
    precision="always",
    fusion="out_fusable",
    cost=counting(_products),
)
def matmul(x1: TensorType, x2: TensorType, out_dtype: DType | None = None) -> TensorType:
    """Product of matrices in the last two axes: z[i, j] = sum of x1[i, k] * x2[k, j].

    The axes before them broadcast. A vector is a row on the left and a column on the right, and
    the result is without that axis.
    """
    dtype = out_dtype or common_dtype(x1=x1, x2=x2)
    vdevice = common_vdevice(x1, x2)
    for name, ty in (("x1", x1), ("x2", x2)):
        if ty.ndim == 0:
            raise OpError(f"`{name}` must have at least one dimension, but it is a scalar")
    if x1.ndim < 0 or x2.ndim < 0:
        return TensorType(None, dtype, vdevice=vdevice)
    ndim = max(x1.ndim, x2.ndim, 2) - (x1.ndim == 1) - (x2.ndim == 1)
    if x1.dims is None or x2.dims is None:
        return TensorType(None, dtype, ndim, vdevice)
    dims = _product_dims(x1.dims, x2.dims)
    return TensorType(dims, dtype, ndim, vdevice)


def _product_dims(x1: tuple[Dim, ...], x2: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    inner, other = x1[-1], x2[0] if len(x2) == 1 else x2[-2]
    if can_prove_different(inner, other):
        raise OpError(
            f"the last dimension of `x1` must be the one before the last of `x2`, "
            f"but {inner} and {other} are summed over"
        )
    batch = broadcast_dims(x1[:-2], x2[:-2], ("the stack `x1`", "the stack `x2`"))
    return None if batch is None else (*batch, *x1[-2:-1], *(x2[-1:] if len(x2) > 1 else ()))


@op(
    "relax.outer",
    lower=lambda x1, x2: lax.expand_dims(x1, [1]) * lax.expand_dims(x2, [0]),
    gradient=lambda g, z, x, y: (call("matmul", g, y), call("matmul", x, g)),
    canonical=lambda x1, x2: call("expand_dims", x1, [1]) * call("expand_dims", x2, [0]),
    precision="follow",
    fusion="broadcast",
    cost=ELEMENTWISE,
)
def outer(x1: TensorType, x2: TensorType) -> TensorType:
    """Every product of an element of one vector with one of the other: z[i, j] = x1[i] * x2[j]."""
    for name, ty in (("x1", x1), ("x2", x2)):
        require_ndim(name, ty, 1)
    dtype, vdevice = common_dtype(x1=x1, x2=x2), common_vdevice(x1, x2)
    if x1.dims is None or x2.dims is None:
        return TensorType(None, dtype, 2, vdevice)
    return TensorType((*x1.dims, *x2.dims), dtype, vdevice=vdevice)


@sugar("relax.linear")
def linear(data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: Any = None) -> Expr:
    """A linear layer, whose weight is of shape (out, in): data @ weight^T + bias."""
    product = matmul(data, call("permute_dims", weight), out_dtype)
    return product if bias is None else product + bias
