"""Random numbers, drawn with keys: the same key gives the same numbers, on every device.

There is no hidden state. A program that wants other numbers makes another key, by `split`, or by
`fold_in` of the number of its step. Nothing here follows TVM, which has no random operators.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, PrimExpr, ShapeExpr
from relaxjax.ir.op import ZERO_GRADIENT
from relaxjax.ir.types import PrimType, TensorType, is_float, is_integer, is_key
from relaxjax.ir.wording import counted

from .arrays import cast, jax_dtype
from .conversions import DType, Ints
from .creation import shaped
from .declare import OpError, op
from .emit import call
from .lowered_cost import LOWERED
from .shapes import dims_text, never_repeated, normalize_axis, require_choice

_DRAWN: dict[str, Any] = {"gradient": ZERO_GRADIENT, "cost": LOWERED}

# How keys are made into bits, and the dtype that says it.
_KEY_DTYPES = {"threefry2x32": "key<fry>", "rbg": "key<rbg>", "unsafe_rbg": "key<urbg>"}


def _require_key(key: TensorType) -> None:
    if key.dtype is not None and not is_key(key.dtype):
        raise OpError(f"`key` must be a random key, as R.random.key(0) makes it, found {key}")
    if key.ndim not in (-1, 0):
        raise OpError(
            f"`key` must be one key, found {counted(key.ndim, 'dimension')} of them: take one out"
        )


def _require_number(name: str, value: Expr, floating: bool) -> TensorType:
    """The type of a number of the host or a tensor, integers only unless `floating`."""
    ty = value.ty
    ty = TensorType((), ty.dtype) if isinstance(ty, PrimType) else ty
    if not isinstance(ty, TensorType):
        raise OpError(f"`{name}` must be a number or a tensor, but `{value}` is of type {value.ty}")
    if ty.dtype is not None and not floating and not is_integer(ty.dtype):
        raise OpError(f"`{name}` must be an integer, found dtype {ty.dtype}")
    return ty


def _require_bounds(shape: TensorType, floating: bool, **bounds: Expr) -> None:
    """Bounds that do not broadcast to the shape drawn are an error."""
    for name, bound in bounds.items():
        ty = _require_number(name, bound, floating)
        if shape.dims is None or ty.dims is None:
            continue
        _require_fit(f"`{name}` of shape {dims_text(ty.dims)}", ty.dims, shape.dims)


def _require_fit(what: str, dims: Sequence[Dim], shape: Sequence[Dim]) -> None:
    """Dimensions that do not broadcast to a shape are an error."""
    pairs = zip(reversed(dims), reversed(shape), strict=False)
    if len(dims) > len(shape) or any(never_repeated(d, s) for d, s in pairs):
        raise OpError(f"{what} does not broadcast to {dims_text(shape)}")


def _spread(bound: Any, shape: Any, dtype: Any) -> Any:
    """A bound, a number of the host or an array, in the shape and dtype of what is drawn."""
    array = jnp.asarray(bound) if isinstance(bound, int | float) else bound
    return jnp.broadcast_to(cast(array, dtype), shape)


@op("relax.random.key", lower=lambda seed, impl: jax.random.key(seed, impl=impl), **_DRAWN)
def key(seed: Expr, impl: str = "threefry2x32") -> TensorType:
    """The random key of a seed, an integer.

    `impl` is the generator: threefry2x32, or rbg and unsafe_rbg, which are faster on a TPU.
    """
    require_choice("impl", impl, _KEY_DTYPES)
    ty = _require_number("seed", seed, floating=False)
    if ty.ndim not in (-1, 0):
        raise OpError(f"`seed` must be one integer, found {counted(ty.ndim, 'dimension')}")
    return TensorType((), _KEY_DTYPES[impl])


@op("relax.random.split", lower=lambda key, num: jax.random.split(key, num), **_DRAWN)
def split(key: TensorType, num: Ints = (2,)) -> TensorType:
    """New keys out of one, in a tensor of shape `num`. The old one should not be used again."""
    _require_key(key)
    counts: tuple[Any, ...] = num  # a symbolic one too
    if any(isinstance(count, int) and count < 0 for count in counts):
        raise OpError(f"`num` must not be negative, found {list(num)}")
    return TensorType(num, key.dtype)


@op("relax.random.fold_in", lower=lambda key, data: jax.random.fold_in(key, data), **_DRAWN)
def fold_in(key: TensorType, data: Expr) -> TensorType:
    """A new key out of a key and an integer, such as the number of a step."""
    _require_key(key)
    ty = _require_number("data", data, floating=False)
    number = data.value if isinstance(data, PrimExpr) else 0
    if isinstance(number, int) and not 0 <= number < 2**32:
        raise OpError(f"`data` must be in [0, 2**32), found {number}")
    if ty.ndim not in (-1, 0):
        raise OpError(f"`data` must be one integer, found {counted(ty.ndim, 'dimension')}")
    return TensorType((), key.dtype)


def _uniform(key: Any, shape: Any, minval: Any, maxval: Any, dtype: str) -> Any:
    given = jax.random.uniform(key, shape, jax_dtype(dtype))
    low, high = (_spread(bound, shape, given.dtype) for bound in (minval, maxval))
    return low + given * (high - low)


def _uniform_gradient(
    g: Expr, y: Expr, key: Expr, shape: Expr, minval: Expr, maxval: Expr, dtype: str
) -> tuple[Expr | None, ...]:
    """y = low + u * (high - low), with the same u drawn again."""
    u = call("random.uniform", key, shape, dtype=dtype)
    to_high = g * u
    adjoints = (g - to_high, to_high)
    return None, None, *map(_as_bound, (minval, maxval), adjoints)


def _as_bound(bound: Expr, adjoint: Expr) -> Expr | None:
    """The adjoint of a bound, in its dtype; a number of the host has none."""
    ty = bound.ty
    if not isinstance(ty, TensorType) or not is_float(ty.dtype):
        return None
    same = isinstance(adjoint.ty, TensorType) and adjoint.ty.dtype == ty.dtype
    return adjoint if same else call("astype", adjoint, ty.dtype)


def _require_float_dtype(dtype: str | None) -> None:
    if not is_float(dtype):
        raise OpError(f"`dtype` must be a float dtype, found {dtype}")


@op("relax.random.uniform", lower=_uniform, gradient=_uniform_gradient, cost=LOWERED)
def uniform(
    key: TensorType,
    shape: ShapeExpr,
    minval: Expr = 0.0,  # type: ignore[assignment]  # a number stands for an expression
    maxval: Expr = 1.0,  # type: ignore[assignment]  # as above
    dtype: DType = "float32",
) -> TensorType:
    """Numbers drawn evenly from [minval, maxval), numbers or tensors that broadcast to `shape`."""
    _require_key(key)
    _require_float_dtype(dtype)
    ty = shaped(shape, dtype)
    _require_bounds(ty, True, minval=minval, maxval=maxval)
    return ty


@op(
    "relax.random.normal",
    lower=lambda key, shape, dtype: jax.random.normal(key, shape, jax_dtype(dtype)),
    **_DRAWN,
)
def normal(key: TensorType, shape: ShapeExpr, dtype: DType = "float32") -> TensorType:
    """Numbers drawn from the normal distribution of mean 0 and variance 1."""
    _require_key(key)
    _require_float_dtype(dtype)
    return shaped(shape, dtype)


def _bernoulli(key: Any, p: Any, shape: Any | None) -> Any:
    """A number of the host is a float32, whatever widths JAX knows: so its draws are the same."""
    p = p if hasattr(p, "dtype") else jnp.asarray(p, jnp.float32)
    return jax.random.bernoulli(key, p if shape is None else jnp.broadcast_to(p, shape))


@op("relax.random.bernoulli", lower=_bernoulli, gradient=ZERO_GRADIENT, cost=LOWERED)
def bernoulli(
    key: TensorType,
    p: Expr = 0.5,  # type: ignore[assignment]  # a number stands for an expression
    shape: ShapeExpr | None = None,
) -> TensorType:
    """True with the probability `p`, else False; of the shape of `p` if none is given."""
    _require_key(key)
    ty = _require_number("p", p, floating=True)
    if ty.dtype is not None and not is_float(ty.dtype) and isinstance(p.ty, TensorType):
        raise OpError(f"`p` must have a float dtype, found {ty.dtype}")
    if shape is None:
        return TensorType(ty.shape, "bool", ty.ndim if ty.shape is None else -1)
    drawn = shaped(shape, "bool")
    _require_bounds(drawn, True, p=p)
    return drawn


def _require_integer_dtype(dtype: str | None) -> None:
    if dtype is None or not is_integer(dtype):
        raise OpError(f"`dtype` must be an integer dtype, found {dtype}")


def _randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: str) -> Any:
    low, high = (
        jnp.broadcast_to(bound, shape) if hasattr(bound, "dtype") else bound
        for bound in (minval, maxval)
    )
    if any(isinstance(bound, int) and not -(2**31) <= bound < 2**31 for bound in (low, high)):
        # The end of the range may be just what the dtype cannot hold, as 2 ** 31 for int32.
        with jax.enable_x64(True):
            return jax.random.randint(key, shape, low, high, jax_dtype(dtype))
    return jax.random.randint(key, shape, low, high, jax_dtype(dtype))


@op("relax.random.randint", lower=_randint, gradient=ZERO_GRADIENT, cost=LOWERED)
def randint(
    key: TensorType, shape: ShapeExpr, minval: Expr, maxval: Expr, dtype: DType = "int32"
) -> TensorType:
    """Integers drawn evenly from [minval, maxval), numbers or tensors that broadcast to `shape`."""
    _require_key(key)
    _require_integer_dtype(dtype)
    ty = shaped(shape, dtype)
    _require_bounds(ty, False, minval=minval, maxval=maxval)
    return ty


def _categorical(key: Any, logits: Any, shape: Any | None, axis: int) -> Any:
    return jax.random.categorical(key, logits, axis, shape).astype(jnp.int32)


@op("relax.random.categorical", lower=_categorical, gradient=ZERO_GRADIENT, cost=LOWERED)
def categorical(
    key: TensorType, logits: TensorType, shape: ShapeExpr | None = None, axis: int = -1
) -> TensorType:
    """Places along `axis`, drawn with the probabilities softmax(logits), as int32.

    The result has the shape of `logits` without that axis, or a `shape` that it broadcasts to.
    """
    _require_key(key)
    if logits.dtype is not None and not is_float(logits.dtype):
        raise OpError(f"`logits` must have a float dtype, found {logits.dtype}")
    if logits.ndim < 0:
        return TensorType(None, "int32") if shape is None else shaped(shape, "int32")
    along = normalize_axis(axis, logits.ndim)
    rest = None if logits.dims is None else (*logits.dims[:along], *logits.dims[along + 1 :])
    if shape is None:
        return TensorType(rest, "int32", logits.ndim - 1)
    drawn = shaped(shape, "int32")
    if rest is not None and drawn.dims is not None:
        what = f"the shape {dims_text(rest)} of `logits` without the axis {axis}"
        _require_fit(what, rest, drawn.dims)
    return drawn
