"""Operators that make tensors out of shapes and scalars."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, SymbolicExpr
from relaxjax.ir.expr import Expr, PrimExpr, ShapeExpr, Var
from relaxjax.ir.node import replace
from relaxjax.ir.op import ZERO_GRADIENT, Op
from relaxjax.ir.types import PrimType, ShapeType, TensorType, is_float
from relaxjax.ir.wording import counted

from .arrays import cast, jax_dtype
from .conversions import DType
from .cost_rules import ELEMENTWISE, FILLS, TRANSCENDENTAL
from .declare import OpError, op
from .emit import call, dtype_of
from .rearranging import AGNOSTIC, CREATED
from .shapes import require_ndim, with_dtype

_FILLED: dict[str, Any] = {"precision": "follow", "fusion": "elementwise", "cost": FILLS}

_ZERO, _ONE = PrimExpr(0), PrimExpr(1)


def shaped(shape: Expr, dtype: str | None) -> TensorType:
    """The type of a tensor whose shape is an argument: written out, or held in a variable."""
    ty = shape.ty
    if not isinstance(ty, ShapeType):
        raise OpError(f"`shape` must be a shape, but `{shape}` is of type {ty}")
    if isinstance(shape, Var):
        return TensorType(shape, dtype)
    negative = [dim for dim in ty.values or () if isinstance(dim, int) and dim < 0]
    if negative:
        raise OpError(f"`shape` must have no negative dimension, found {negative[0]}")
    return TensorType(ty.values, dtype, ty.ndim)


def filled(name: str, value: int, doc: str) -> tuple[Op, Op]:
    """The operators that fill a shape, and the shape of a tensor, with `value`."""

    def infer(shape: ShapeExpr, dtype: DType) -> TensorType:
        return shaped(shape, dtype)

    def infer_like(x: TensorType, dtype: DType | None = None) -> TensorType:
        return with_dtype(x, dtype or x.dtype)

    def lower(shape: Any, dtype: str) -> Any:
        return jnp.full(shape, value, jax_dtype(dtype))

    def lower_like(x: Any, dtype: str | None) -> Any:
        return jnp.full(x.shape, value, jax_dtype(dtype or x.dtype))

    infer.__doc__ = f"A tensor of {doc}."
    infer_like.__doc__ = (
        f"A tensor of {doc}, of the shape of `x`, and of its dtype if none is given."
    )
    rules: dict[str, Any] = {
        "gradient": ZERO_GRADIENT,
        "precision": "follow",
        "fusion": "elementwise",
        "facts": {"value": value},
        "cost": FILLS,
    }
    plain = op(f"relax.{name}", layout=CREATED, lower=lower, **rules)(infer)
    like = op(f"relax.{name}_like", layout=AGNOSTIC, lower=lower_like, **rules)(infer_like)
    return plain, like


zeros, zeros_like = filled("zeros", 0, "zeros")
ones, ones_like = filled("ones", 1, "ones")


def _require_scalar(fill_value: TensorType) -> None:
    if fill_value.ndim > 0:
        raise OpError(
            f"`fill_value` must be a scalar, but it has {counted(fill_value.ndim, 'dimension')}"
        )


def _full_gradient(g: Expr, y: Expr, shape: Expr, fill_value: Expr, dtype: Any) -> Any:
    return None, call("astype", call("sum", g), dtype_of(fill_value))


@op(
    "relax.full",
    layout=CREATED,
    lower=lambda shape, fill_value, dtype: jnp.full(
        shape, cast(fill_value, dtype or fill_value.dtype)
    ),
    gradient=_full_gradient,
    **_FILLED,
)
def full(shape: ShapeExpr, fill_value: TensorType, dtype: DType | None = None) -> TensorType:
    """A tensor of one value everywhere, of the value's dtype if none is given."""
    _require_scalar(fill_value)
    ty = shaped(shape, dtype or fill_value.dtype)
    return replace(ty, vdevice=fill_value.vdevice) if fill_value.vdevice else ty


@op(
    "relax.full_like",
    layout=AGNOSTIC,
    lower=lambda x, fill_value, dtype: jnp.full(x.shape, cast(fill_value, dtype or x.dtype)),
    gradient=_full_gradient,
    **_FILLED,
)
def full_like(x: TensorType, fill_value: TensorType, dtype: DType | None = None) -> TensorType:
    """A tensor of one value everywhere, of the shape of `x`, and of its dtype if none is given."""
    _require_scalar(fill_value)
    return with_dtype(x, dtype or x.dtype)


def host_dim(value: Expr) -> Dim | None:
    """An integer of the host where it is written out, None where it is in a variable."""
    if isinstance(value, PrimExpr) and isinstance(value.value, int | SymbolicExpr):
        return value.value
    return None


def _length(value: Expr, name: str) -> Dim | None:
    if isinstance(value, PrimExpr) and isinstance(value.value, float):
        raise OpError(f"`{name}` must be an integer, found {value.value}")
    dim = host_dim(value)
    if isinstance(dim, int) and dim < 0:
        raise OpError(f"`{name}` must not be negative, found {dim}")
    return dim


def _identity_matrix(n: Any, m: Any, k: Any, dtype: Any) -> Any:
    shape = (n, m)
    row, column = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
    return (row + k == column).astype(jax_dtype(dtype))


@op(
    "relax.eye",
    complete=lambda n, m, **rest: {"m": n if m is None else m},
    lower=_identity_matrix,
    gradient=ZERO_GRADIENT,
    **_FILLED,
)
def eye(
    n: PrimExpr, m: PrimExpr | None = None, k: PrimExpr = _ZERO, dtype: DType = "float32"
) -> TensorType:
    """A matrix of `n` rows and `m` columns (`n` if not given): 1 on its `k`-th diagonal, else 0."""
    rows, columns = _length(n, "n"), _length(n if m is None else m, "m")
    if rows is None or columns is None:
        return TensorType(None, dtype, 2)
    return TensorType((rows, columns), dtype)


@op(
    "relax.eye_like",
    lower=lambda x, k, dtype: _identity_matrix(x.shape[0], x.shape[1], k, dtype or x.dtype),
    gradient=ZERO_GRADIENT,
    **_FILLED,
)
def eye_like(x: TensorType, k: PrimExpr = _ZERO, dtype: DType | None = None) -> TensorType:
    """A matrix of the shape of `x`: 1 on its `k`-th diagonal, else 0."""
    require_ndim("x", x, 2)
    return with_dtype(x, dtype or x.dtype)


def _complete_arange(
    start: Expr, end: Expr | None, step: Expr, dtype: str | None
) -> Mapping[str, Any]:
    if end is None:
        start, end = PrimExpr(0), start
    types = [item.ty.dtype for item in (start, end, step) if isinstance(item.ty, PrimType)]
    found = "float32" if any(map(is_float, types)) else "int64"
    return {"start": start, "end": end, "dtype": dtype or found}


def _arange_length(start: Any, end: Any, step: Any) -> Any:
    """The number of steps from `start` until before `end`, also of symbolic integers."""
    if any(isinstance(item, float) for item in (start, end, step)):
        return max(0, math.ceil((end - start) / step))
    distance = end - start if step > 0 else start - end
    size = abs(step)
    length = (distance + size - 1) // size
    return max(0, length) if isinstance(length, int) else length


def _arange(start: Any, end: Any, step: Any, dtype: Any) -> Any:
    count = lax.iota(jax_dtype(dtype), _arange_length(start, end, step))
    return count * jnp.asarray(step, count.dtype) + jnp.asarray(start, count.dtype)


@op("relax.arange", complete=_complete_arange, lower=_arange, gradient=ZERO_GRADIENT, **_FILLED)
def arange(
    start: PrimExpr, end: PrimExpr | None = None, step: PrimExpr = _ONE, dtype: DType | None = None
) -> TensorType:
    """The numbers start, start + step, ... before `end`; of one number, those from 0 on."""
    values = [item.value for item in (start, end, step) if isinstance(item, PrimExpr)]
    if len(values) < 3 or isinstance(values[2], SymbolicExpr):
        return TensorType(None, dtype, 1)
    if values[2] == 0:
        raise OpError("`step` must not be 0")
    symbolic = any(isinstance(value, SymbolicExpr) for value in values)
    if symbolic and any(isinstance(value, float) for value in values):
        return TensorType(None, dtype, 1)
    return TensorType((_arange_length(*values),), dtype)


def _triangle(keep: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The lowering that keeps the elements on the diagonals that `keep` names."""

    def lower(x: Any, k: Any) -> Any:
        shape = x.shape[-2:]
        row, column = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
        mask = jnp.broadcast_to(keep(column - row, k), x.shape)
        return lax.select(mask, x, jnp.zeros_like(x))

    return lower


def _require_matrix(x: TensorType) -> TensorType:
    if x.ndim in (0, 1):
        raise OpError(f"`x` must have at least 2 dimensions, found {x.ndim}")
    return x


@op(
    "relax.tril",
    lower=_triangle(lambda diagonal, k: diagonal <= k),
    gradient=lambda g, y, x, k: (call("tril", g, k), None),
    precision="follow",
    fusion="elementwise",
    cost=ELEMENTWISE,
)
def tril(x: TensorType, k: PrimExpr = _ZERO) -> TensorType:
    """The lower triangle of the last two dimensions: zero above the `k`-th diagonal."""
    return _require_matrix(x)


@op(
    "relax.triu",
    lower=_triangle(lambda diagonal, k: diagonal >= k),
    gradient=lambda g, y, x, k: (call("triu", g, k), None),
    precision="follow",
    fusion="elementwise",
    cost=ELEMENTWISE,
)
def triu(x: TensorType, k: PrimExpr = _ZERO) -> TensorType:
    """The upper triangle of the last two dimensions: zero below the `k`-th diagonal."""
    return _require_matrix(x)


def _hamming_window(window_size: Any, periodic: Any, alpha: Any, beta: Any, dtype: Any) -> Any:
    if window_size == 1:
        return jnp.ones(1, jax_dtype(dtype))
    place = lax.iota(jax_dtype(dtype), window_size)
    angle = place * jnp.asarray(2 * math.pi / (window_size - (not periodic)), place.dtype)
    return jnp.asarray(alpha, place.dtype) - jnp.asarray(beta, place.dtype) * jnp.cos(angle)


@op(
    "relax.hamming_window",
    lower=_hamming_window,
    gradient=ZERO_GRADIENT,
    fusion="elementwise",
    cost=TRANSCENDENTAL,
)
def hamming_window(
    window_size: PrimExpr, periodic: PrimExpr, alpha: PrimExpr, beta: PrimExpr, dtype: DType
) -> TensorType:
    """Hamming's window: alpha - beta * cos(2 * pi * i / N), N one less unless it is periodic."""
    if not is_float(dtype):
        raise OpError(f"`dtype` must be a float dtype, found {dtype}")
    size = _length(window_size, "window_size")
    if size == 0:
        raise OpError("`window_size` must be positive, found 0")
    return TensorType(None if size is None else (size,), dtype, 1)
