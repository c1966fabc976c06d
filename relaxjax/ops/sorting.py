"""Operators that sort, and those whose result has as many elements as the values say."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Call, Expr, PrimExpr
from relaxjax.ir.op import ZERO_GRADIENT
from relaxjax.ir.types import TensorType, TupleType, Type

from .arrays import cast, finite_range, jax_dtype
from .axis_layouts import ONE_AXIS
from .conversions import DType
from .cost_rules import REDUCES, SORTS, counting, dims_at, elements
from .creation import host_dim
from .declare import OpError, op
from .emit import call
from .index import require_integers
from .shapes import normalize_axis, require_ndim, with_dtype
from .unary import require_float

# XLA's library for CPUs has `top_k` of these: 8 of 512 take a thirtieth of the time of a sort.
_TAKEN_BY_LIBRARY = ("bfloat16", "float16", "float32")

_SORTED: dict[str, Any] = {"layout": ONE_AXIS, "precision": "follow", "cost": SORTS}


def _sorted(data: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    """The elements along `axis` in order, equal ones as they were, and where they come from.

    Both are always made, by one sort: where a program needs both, they are one operation.
    """
    along = axis % data.ndim
    places = lax.broadcasted_iota(jnp.int32, data.shape, along)
    pair = [lax.rev(x, [along]) if descending else x for x in (data, places)]
    values, order = lax.sort(pair, dimension=along, is_stable=True, num_keys=1)
    return (lax.rev(values, [along]), lax.rev(order, [along])) if descending else (values, order)


def _sort(data: Any, axis: int, descending: bool) -> Any:
    return _sorted(data, axis, descending)[0]


def _sort_gradient(g: Expr, y: Expr, data: Expr, axis: int, descending: bool) -> Expr:
    """Each element has the adjoint of the place that it went to."""
    order = call("argsort", data, axis, descending, dtype="int64")
    return call("scatter_elements", call("zeros_like", data), order, g, axis=axis)


def _require_axis(data: TensorType, axis: int) -> int:
    return normalize_axis(axis, data.ndim) if data.ndim >= 0 else axis


@op("relax.sort", lower=_sort, gradient=_sort_gradient, facts={"chooses": True}, **_SORTED)
def sort(data: TensorType, axis: int = -1, descending: bool = False) -> TensorType:
    """The elements along `axis` in ascending order, or in descending order."""
    _require_axis(data, axis)
    return data


def _argsort(data: Any, axis: int, descending: bool, dtype: str) -> Any:
    return cast(_sorted(data, axis, descending)[1], dtype)


@op("relax.argsort", lower=_argsort, gradient=ZERO_GRADIENT, **_SORTED)
def argsort(
    data: TensorType, axis: int = -1, descending: bool = False, dtype: DType = "int32"
) -> TensorType:
    """The places of the elements along `axis` in sorted order; equal ones stay in their order."""
    _require_axis(data, axis)
    return with_dtype(data, dtype)


def _top(data: Any, along: int, count: Any) -> tuple[Any, Any]:
    parts = lax.top_k(jnp.moveaxis(data, along, -1), count)
    return jnp.moveaxis(parts[0], -1, along), jnp.moveaxis(parts[1], -1, along)


def _in_opposite_order(data: Any) -> Any:
    """Numbers of which the largest are the smallest of `data`, zeros equal, and NaN the least.

    Infinity counts as the largest finite number.
    """
    wide = data.astype(jnp.float32)
    turned = jnp.where(wide == 0, 0, -jnp.minimum(wide, finite_range("float32")[1]))
    return jnp.where(jnp.isnan(wide), -jnp.inf, turned)


def _topk(data: Any, k: int, axis: int, ret_type: str, largest: bool, dtype: str) -> Any:
    along = axis % data.ndim
    length = data.shape[along]
    count = length if k < 1 or (isinstance(length, int) and k > length) else k
    if largest:
        values, places = _top(data, along, count)
    else:
        if data.dtype in _TAKEN_BY_LIBRARY:
            places = _top(_in_opposite_order(data), along, count)[1]
        else:
            order = jnp.argsort(data, along, stable=True)
            places = lax.slice_in_dim(order, 0, count, axis=along)
        values = jnp.take_along_axis(data, places, along)
    chosen = {"both": (values, cast(places, dtype)), "values": values}
    return chosen.get(ret_type, cast(places, dtype))


def _topk_gradient(
    g: Expr, y: Expr, data: Expr, k: int, axis: int, ret_type: str, largest: bool, dtype: str
) -> tuple[Expr | None]:
    if ret_type == "indices":
        return (None,)
    places = call("topk", data, k, axis, "indices", largest, "int64")
    values = g[0] if ret_type == "both" else g
    zeros = call("zeros_like", data)
    return (call("scatter_elements", zeros, places, values, axis=axis),)


@op("relax.topk", lower=_topk, gradient=_topk_gradient, facts={"chooses": True}, **_SORTED)
def topk(
    data: TensorType,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: DType = "int32",
) -> Type:
    """The `k` largest elements along `axis`, the largest first, or the smallest, smallest first.

    `ret_type` chooses the values, their indices (of dtype `dtype`), or both as a pair. A `k` below
    1, or above the length, takes all.
    """
    if ret_type not in ("both", "values", "indices"):
        raise OpError(f"`ret_type` must be both, values or indices, found {ret_type}")
    along = _require_axis(data, axis)
    values = data
    if data.dims is not None and k > 0:
        length = data.dims[along]
        count = min(k, length) if isinstance(length, int) else k
        dims = (*data.dims[:along], count, *data.dims[along + 1 :])
        values = TensorType(dims, data.dtype, vdevice=data.vdevice)
    indices = with_dtype(values, dtype)
    if ret_type == "both":
        return TupleType((values, indices))
    return values if ret_type == "values" else indices


def _concrete(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose result has a shape that only concrete values tell."""

    def lower(*args: Any, **attrs: Any) -> Any:
        try:
            with jax.ensure_compile_time_eval():
                return function(*args, **attrs)
        except jax.errors.ConcretizationTypeError:
            raise OpError(
                "the shape of the result depends on values, which are unknown while a program is "
                "compiled: run the function outside of jax.jit"
            ) from None

    return lower


def _unique(
    x: Any,
    sorted: Any,
    return_index: Any,
    return_inverse: Any,
    return_counts: Any,
    axis: int | None = None,
) -> Any:
    found = jnp.unique(x, return_index, return_inverse, return_counts, axis)
    if not isinstance(found, tuple):
        return found
    return (found[0], *(cast(part.reshape(-1), "int64") for part in found[1:]))


_TRUE, _FALSE = PrimExpr(True), PrimExpr(False)


@op(
    "relax.unique",
    lower=_concrete(_unique),
    gradient=ZERO_GRADIENT,
    facts={"data_dependent": True},
    cost=SORTS,
    precision="follow",
)
def unique(
    x: TensorType,
    sorted: PrimExpr = _TRUE,
    return_index: PrimExpr = _FALSE,
    return_inverse: PrimExpr = _FALSE,
    return_counts: PrimExpr = _FALSE,
    axis: PrimExpr | None = None,
) -> Type:
    """The distinct elements of `x`, or slices along `axis`, in ascending order.

    With them, if asked for: where each stands first, which one each element is, how often it is.
    """
    along = None if axis is None else host_dim(axis)
    if isinstance(along, int) and x.ndim >= 0:
        normalize_axis(along, x.ndim)
    dims = (1,) if x.ndim == 0 and axis is None else None
    values = TensorType(dims, x.dtype, 1 if axis is None else x.ndim, x.vdevice)
    flags = [_flag(flag) for flag in (return_index, return_inverse, return_counts)]
    more = [TensorType(None, "int64", 1, x.vdevice) for flag in flags if flag]
    return TupleType((values, *more)) if more else values


def _flag(value: Expr) -> bool:
    if not isinstance(value, PrimExpr):
        raise OpError(f"`{value}` must be written out as True or False")
    return bool(value.value)


def _nonzero(x: Any) -> Any:
    return cast(jnp.stack(jnp.nonzero(jnp.atleast_1d(x))), "int64")


@op(
    "relax.nonzero",
    lower=_concrete(_nonzero),
    gradient=ZERO_GRADIENT,
    facts={"data_dependent": True},
    cost=REDUCES,
    precision="follow",
)
def nonzero(x: TensorType) -> TensorType:
    """The places of the elements that are not 0: a row for each axis, a column for each place."""
    return TensorType(None, "int64", 2, x.vdevice)


def _multinomial(prob: Any, uniform_sample: Any, sample_indices: Any, dtype: str) -> Any:
    """The first class whose cumulated probability exceeds the draw."""
    cumulated = jnp.cumsum(prob, 1)[sample_indices.reshape(-1)]
    below = cumulated <= uniform_sample.reshape(-1, 1).astype(prob.dtype)
    last = prob.shape[1] - 1
    found = jnp.minimum(jnp.sum(below, 1, dtype=jax_dtype("int32")), last)
    return cast(found.reshape(-1, 1), dtype)


def _drawn(call: Call) -> Dim:
    """The probabilities added up, and each of them compared for each draw."""
    return elements(call.args[0].ty) + elements(call.ty) * dims_at(call, 0)[1]


@op(
    "relax.multinomial_from_uniform",
    lower=_multinomial,
    gradient=ZERO_GRADIENT,
    cost=counting(_drawn),
)
def multinomial_from_uniform(
    prob: TensorType, uniform_sample: TensorType, sample_indices: TensorType, dtype: DType = "int64"
) -> TensorType:
    """A class for each draw from [0, 1), of the distribution in row `sample_indices[i]`."""
    parts = {"prob": prob, "uniform_sample": uniform_sample, "sample_indices": sample_indices}
    for name, ty in parts.items():
        require_ndim(name, ty, 2)
    require_integers(sample_indices, "sample_indices")
    require_float(prob, "prob")
    require_float(uniform_sample, "uniform_sample")
    if uniform_sample.dims is None or sample_indices.dims is None:
        return TensorType(None, dtype, 2, prob.vdevice)
    for name in ("uniform_sample", "sample_indices"):
        columns = (parts[name].dims or (0, 1))[1]
        if can_prove_different(columns, 1):
            raise OpError(f"`{name}` must have one column, found {columns}")
    draws = uniform_sample.dims[0]
    if can_prove_different(draws, sample_indices.dims[0]):
        raise OpError(
            f"`sample_indices` must have a row for each of the {draws} of `uniform_sample`, "
            f"found {sample_indices.dims[0]}"
        )
    return TensorType((draws, 1), dtype, vdevice=prob.vdevice)
