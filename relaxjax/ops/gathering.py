"""Reading and writing at places that tensors of indices say."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr, PrimExpr, Tuple
from relaxjax.ir.layout import OPAQUE
from relaxjax.ir.op import ZERO_GRADIENT
from relaxjax.ir.types import PrimType, TensorType, TupleType

from .arrays import jax_dtype
from .axis_layouts import axis_rule
from .cost_rules import MOVES, PICKS
from .declare import OpError, op
from .emit import call
from .index import require_integers
from .lowered_cost import LOWERED
from .shapes import broadcast_dims, common_dtype, dims_text, normalize_axis
from .traced import traced_gradient

_REDUCTIONS = ("update", "add", "mul", "mean", "max", "min")


def _require_int64(indices: TensorType) -> None:
    if indices.dtype not in (None, "int64"):
        raise OpError(f"`indices` must have dtype int64, found {indices.dtype}")


def _require_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise OpError(f"`reduction` must be one of {', '.join(_REDUCTIONS)}, found {reduction}")


def _element_places(shape: Sequence[Any], indices: Any, axis: int) -> tuple[Any, ...]:
    """The places in a tensor that the elements of `indices` mean: their own, but along `axis`."""
    return tuple(
        indices if a == axis else lax.broadcasted_iota(indices.dtype, indices.shape, a)
        for a in range(len(shape))
    )


def _written(data: Any, places: Any, updates: Any, reduction: str) -> Any:
    """`data` with `updates` at `places`; places outside are left out."""
    spots = data.at[places]
    if reduction == "mean":
        counts = jnp.ones_like(data).at[places].add(jnp.ones_like(updates), mode="drop")
        return spots.add(updates, mode="drop") / counts
    writers: dict[str, Callable[..., Any]] = {
        "update": spots.set,
        "add": spots.add,
        "mul": spots.multiply,
        "max": spots.max,
        "min": spots.min,
    }
    return writers[reduction](updates, mode="drop")


@op(
    "relax.gather_elements",
    layout=axis_rule("axis", arranged=(0, 1)),
    lower=lambda data, indices, axis: data[_element_places(data.shape, indices, axis % data.ndim)],
    gradient=lambda g, y, data, indices, axis: (
        call("scatter_elements", call("zeros_like", data), indices, g, axis=axis, reduction="add"),
        None,
    ),
    precision="follow",
    fusion="injective",
    cost=PICKS,
)
def gather_elements(data: TensorType, indices: TensorType, axis: int = 0) -> TensorType:
    """For each element of `indices`, the element of `data` at the same place but along `axis`."""
    _require_int64(indices)
    if data.ndim >= 0:
        normalize_axis(axis, data.ndim)
        if indices.ndim not in (-1, data.ndim):
            raise OpError(f"`indices` must have {data.ndim} dimensions, found {indices.ndim}")
    if data.ndim < 0 or indices.ndim < 0:
        return TensorType(None, data.dtype, vdevice=data.vdevice)
    return TensorType(indices.dims, data.dtype, indices.ndim, data.vdevice)


def _scatter_elements(data: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    places = _element_places(data.shape, indices, axis % data.ndim)
    return _written(data, places, updates, reduction)


def _scatter_elements_gradient(
    g: Expr, y: Expr, data: Expr, indices: Expr, updates: Expr, axis: int, reduction: str
) -> tuple[Expr | None, ...]:
    to_updates = call("gather_elements", g, indices, axis=axis)
    if reduction == "add":
        return g, None, to_updates
    if reduction == "mul":
        ones = call("ones_like", data)
        factor = call("scatter_elements", ones, indices, updates, axis=axis, reduction="mul")
        whole = call("gather_elements", g * y, indices, axis=axis)
        return g * factor, None, whole / updates
    if reduction != "update":
        rule = traced_gradient("relax.scatter_elements")
        return tuple(rule(g, y, data, indices, updates, axis=axis, reduction=reduction))
    zeros = call("zeros_like", updates)
    return call("scatter_elements", g, indices, zeros, axis=axis), None, to_updates


@op(
    "relax.scatter_elements",
    layout=axis_rule("axis", arranged=(0, 1, 2)),
    lower=_scatter_elements,
    gradient=_scatter_elements_gradient,
    precision="follow",
    cost=LOWERED,
    fusion="opaque",
)
def scatter_elements(
    data: TensorType,
    indices: TensorType,
    updates: TensorType,
    axis: int = 0,
    reduction: str = "update",
) -> TensorType:
    """`data` with `updates` at the places that gather_elements would read.

    `reduction` says what becomes of an element and its updates: update (one of them takes its
    place), add, mul, mean, max, min.
    """
    _require_reduction(reduction)
    _require_int64(indices)
    common_dtype(data=data, updates=updates)
    if data.ndim >= 0:
        normalize_axis(axis, data.ndim)
    for name, ty in (("indices", indices), ("updates", updates)):
        if -1 not in (ty.ndim, data.ndim) and ty.ndim != data.ndim:
            raise OpError(f"`{name}` must have {data.ndim} dimensions, found {ty.ndim}")
    places, found = indices.dims or (), updates.dims or ()
    if any(map(can_prove_different, places, found)):
        raise OpError(
            f"`updates` must have the shape of `indices`, {dims_text(places)}, "
            f"found {dims_text(found)}"
        )
    return data


def _nd_places(indices: Any, batch_dims: int = 0) -> tuple[Any, ...]:
    """The last axis of `indices` taken apart, behind the places of the batch axes themselves."""
    depth = indices.shape[-1]
    rows = indices.shape[:-1]
    batch = [lax.broadcasted_iota(indices.dtype, rows, a) for a in range(batch_dims)]
    return (*batch, *(indices[..., i] for i in range(depth)))


def _gather_nd_gradient(
    g: Expr, y: Expr, data: Expr, indices: Expr, batch_dims: int
) -> tuple[Expr | None, ...]:
    if batch_dims:
        rule = traced_gradient("relax.gather_nd")
        return tuple(rule(g, y, data, indices, batch_dims=batch_dims))
    return call("scatter_nd", call("zeros_like", data), indices, g, reduction="add"), None


@op(
    "relax.gather_nd",
    layout=OPAQUE,
    lower=lambda data, indices, batch_dims: data[_nd_places(indices, batch_dims)],
    gradient=_gather_nd_gradient,
    precision="follow",
    fusion="injective",
    cost=PICKS,
)
def gather_nd(data: TensorType, indices: TensorType, batch_dims: int = 0) -> TensorType:
    """The slices of `data` at the places that the last axis of `indices` holds.

    The first `batch_dims` axes of both run together.
    """
    _require_int64(indices)
    depth = indices.dims[-1] if indices.dims else None
    if data.ndim < 0 or indices.ndim < 0 or not isinstance(depth, int):
        return TensorType(None, data.dtype, vdevice=data.vdevice)
    if batch_dims < 0 or batch_dims > min(data.ndim, indices.ndim - 1):
        limit = min(data.ndim, indices.ndim - 1)
        raise OpError(f"`batch_dims` must be in [0, {limit}], found {batch_dims}")
    if depth > data.ndim - batch_dims:
        raise OpError(
            f"the last dimension of `indices` may be at most {data.ndim - batch_dims}, "
            f"found {depth}"
        )
    assert indices.dims is not None
    if data.dims is None:
        return TensorType(
            None, data.dtype, indices.ndim - 1 + data.ndim - batch_dims - depth, data.vdevice
        )
    dims = (*indices.dims[:-1], *data.dims[batch_dims + depth :])
    return TensorType(dims, data.dtype, vdevice=data.vdevice)


def _scatter_nd_gradient(
    g: Expr, y: Expr, data: Expr, indices: Expr, updates: Expr, reduction: str
) -> tuple[Expr | None, ...]:
    places = call("astype", indices, "int64") if _is_narrow(indices) else indices
    if reduction == "mul":
        factor = call("scatter_nd", call("ones_like", data), indices, updates, reduction="mul")
        return g * factor, None, call("gather_nd", g * y, places) / updates
    if reduction not in ("add", "update"):
        rule = traced_gradient("relax.scatter_nd")
        return tuple(rule(g, y, data, indices, updates, reduction=reduction))
    to_updates = call("gather_nd", g, places)
    if reduction == "add":
        return g, None, to_updates
    zeros = call("zeros_like", updates)
    return call("scatter_nd", g, indices, zeros), None, to_updates


def _is_narrow(indices: Expr) -> bool:
    return isinstance(indices.ty, TensorType) and indices.ty.dtype != "int64"


@op(
    "relax.scatter_nd",
    layout=OPAQUE,
    lower=lambda data, indices, updates, reduction: _written(
        data, _nd_places(indices), updates, reduction
    ),
    gradient=_scatter_nd_gradient,
    precision="follow",
    cost=MOVES,
    fusion="opaque",
)
def scatter_nd(
    data: TensorType, indices: TensorType, updates: TensorType, reduction: str = "update"
) -> TensorType:
    """`data` with slices of `updates` at the places that the last axis of `indices` holds."""
    _require_reduction(reduction)
    require_integers(indices, "indices")
    common_dtype(data=data, updates=updates)
    depth = indices.dims[-1] if indices.dims else None
    if data.dims is None or not isinstance(depth, int) or updates.dims is None:
        return data
    if depth > data.ndim:
        raise OpError(f"the last dimension of `indices` may be at most {data.ndim}, found {depth}")
    assert indices.dims is not None
    wanted = (*indices.dims[:-1], *data.dims[depth:])
    wrong_rank = len(wanted) != len(updates.dims)
    if wrong_rank or any(map(can_prove_different, wanted, updates.dims)):
        raise OpError(
            f"`updates` must have shape {dims_text(wanted)}, found {dims_text(updates.dims)}"
        )
    return data


def _index_types(indices: TupleType) -> list[TensorType]:
    types = [ty for ty in indices.fields if isinstance(ty, TensorType)]
    if not types or len(types) < len(indices.fields):
        raise OpError(f"`indices` must be one or more tensors, but its type is {indices}")
    for number, ty in enumerate(types):
        require_integers(ty, f"indices[{number}]")
    return types


def _common_places(types: Sequence[TensorType]) -> tuple[Dim, ...] | None:
    """The shape that tensors of indices broadcast to; None where it is not known."""
    places: tuple[Dim, ...] | None = ()
    for ty in types:
        if ty.dims is None or places is None:
            return None
        places = broadcast_dims(places, ty.dims, ("`indices`", "one more of them"))
    return places


def _index_tensor_gradient(g: Expr, y: Expr, data: Expr, indices: Expr) -> tuple[Expr, None]:
    return call("index_put", call("zeros_like", data), indices, g, accumulate=True), None


@op(
    "relax.index_tensor",
    layout=OPAQUE,
    lower=lambda data, indices: data[tuple(indices)],
    gradient=_index_tensor_gradient,
    precision="follow",
    fusion="injective",
    cost=PICKS,
)
def index_tensor(data: TensorType, indices: TupleType) -> TensorType:
    """The slices of `data` at places that tensors of indices say, one for each leading axis.

    The tensors broadcast to one another: y[i, ...] = data[indices[0][i], indices[1][i], ..., ...].
    """
    types = _index_types(indices)
    if 0 <= data.ndim < len(types):
        raise OpError(f"`indices` may be at most {data.ndim} tensors, found {len(types)}")
    places = _common_places(types)
    if places is None or data.dims is None:
        return TensorType(None, data.dtype, vdevice=data.vdevice)
    return TensorType((*places, *data.dims[len(types) :]), data.dtype, vdevice=data.vdevice)


def _index_put(data: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    spots = data.at[tuple(indices)]
    return spots.add(values) if accumulate else spots.set(values)


def _index_put_gradient(
    g: Expr, y: Expr, data: Expr, indices: Expr, values: Expr, accumulate: bool
) -> tuple[Expr | None, ...]:
    to_values = call("index_tensor", g, indices)
    if accumulate:
        return g, None, to_values
    return call("index_put", g, indices, call("zeros_like", values)), None, to_values


def _complete_index_put(indices: Expr, **rest: Any) -> dict[str, Any]:
    """One tensor of indices stands for a tuple of one."""
    return {} if isinstance(indices.ty, TupleType) else {"indices": Tuple((indices,))}


@op(
    "relax.index_put",
    layout=OPAQUE,
    complete=_complete_index_put,
    lower=_index_put,
    gradient=_index_put_gradient,
    precision="follow",
    cost=MOVES,
    fusion="opaque",
)
def index_put(
    data: TensorType, indices: TupleType, values: TensorType, accumulate: bool = False
) -> TensorType:
    """`data` with `values` written, or added, at the places that index_tensor would read."""
    types = _index_types(indices)
    common_dtype(data=data, values=values)
    if 0 <= data.ndim < len(types):
        raise OpError(f"`indices` may be at most {data.ndim} tensors, found {len(types)}")
    places = _common_places(types)
    if places is not None and data.dims is not None and values.dims is not None:
        _require_values(values.dims, (*places, *data.dims[len(types) :]))
    return data


def _require_values(found: Sequence[Dim], wanted: Sequence[Dim]) -> None:
    """What is written must broadcast to the shape of the places where it is written."""
    pairs = zip(reversed(found), reversed(wanted), strict=False)
    if len(found) > len(wanted) or any(f != 1 and can_prove_different(f, w) for f, w in pairs):
        raise OpError(
            f"`values` must broadcast to {dims_text(wanted)}, the shape of what index_tensor reads "
            f"from `data` at `indices`, found {dims_text(found)}"
        )


def _one_hot(indices: Any, on_value: Any, off_value: Any, depth: int, axis: int) -> Any:
    dtype = _host_dtype(on_value)
    ndim = indices.ndim + 1
    along = axis % ndim
    shape = (*indices.shape[:along], depth, *indices.shape[along:])
    classes = lax.broadcasted_iota(indices.dtype, shape, along)
    hit = classes == lax.expand_dims(indices, [along])
    return jnp.where(hit, jnp.asarray(on_value, dtype), jnp.asarray(off_value, dtype))


def _host_dtype(value: Any) -> Any:
    """The dtype that a scalar of the host has in the program."""
    if hasattr(value, "dtype"):
        return value.dtype
    kinds = {bool: "bool", int: "int64", float: "float64"}
    return jax_dtype(kinds[type(value)])


@op(
    "relax.one_hot",
    layout=OPAQUE,
    lower=_one_hot,
    gradient=ZERO_GRADIENT,
    precision="follow",
    fusion="injective",
    cost=MOVES,
)
def one_hot(
    indices: TensorType, on_value: PrimExpr, off_value: PrimExpr, depth: int, axis: int = -1
) -> TensorType:
    """`on_value` where `indices` say along a new axis of length `depth`, `off_value` elsewhere.

    The dtype is that of the values: float64 or int64, unless they are written as R.prim_value of
    a narrower one.
    """
    require_integers(indices, "indices")
    on, off = on_value.ty, off_value.ty
    if not isinstance(on, PrimType) or not isinstance(off, PrimType) or on.dtype != off.dtype:
        raise OpError(f"`on_value` and `off_value` must have the same dtype, found {on} and {off}")
    if depth < 1:
        raise OpError(f"`depth` must be positive, found {depth}")
    if indices.ndim < 0:
        return TensorType(None, on.dtype, vdevice=indices.vdevice)
    along = normalize_axis(axis, indices.ndim + 1)
    if indices.dims is None:
        return TensorType(None, on.dtype, indices.ndim + 1, indices.vdevice)
    dims = (*indices.dims[:along], depth, *indices.dims[along:])
    return TensorType(dims, on.dtype, vdevice=indices.vdevice)
