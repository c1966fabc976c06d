"""Reading at places that tensors of indices say."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, PrimExpr
from relaxjax.ir.op import ZERO_GRADIENT, Partial
from relaxjax.ir.types import PrimType, TensorType, TupleType

from .arrays import as_places, jax_dtype
from .axis_layouts import axis_rule
from .cost_rules import MOVES, PICKS
from .declare import OpError, op
from .emit import call
from .index import require_integers, require_read
from .shapes import broadcast_dims, normalize_axis, require_ndim
from .traced import traced_gradient

_PICKED: dict[str, Any] = {"precision": "follow", "fusion": "injective", "cost": PICKS}


def require_int64(indices: TensorType) -> None:
    if indices.dtype not in (None, "int64"):
        raise OpError(f"`indices` must have dtype int64, found {indices.dtype}")


def read_at(data: Any, places: tuple[Any, ...]) -> Any:
    """What `data` holds at places; outside of it NaN, which takes no gradient anywhere."""
    return data.at[places].get(mode="fill")


def element_places(shape: Sequence[Any], indices: Any, axis: int) -> tuple[Any, ...]:
    """The places in a tensor that the elements of `indices` mean: their own, but along `axis`."""
    return tuple(
        indices if a == axis else lax.broadcasted_iota(indices.dtype, indices.shape, a)
        for a in range(len(shape))
    )


@op(
    "relax.gather_elements",
    layout=axis_rule("axis", arranged=(0, 1)),
    lower=lambda data, indices, axis: read_at(
        data, element_places(data.shape, indices, axis % data.ndim)
    ),
    gradient=lambda g, y, data, indices, axis: (
        call("scatter_elements", call("zeros_like", data), indices, g, axis=axis, reduction="add"),
        None,
    ),
    **_PICKED,
)
def gather_elements(data: TensorType, indices: TensorType, axis: int = 0) -> TensorType:
    """For each element of `indices`, the element of `data` at the same place but along `axis`.

    Negative places count from the back. Places outside give NaN, in signed integers the lowest
    number, in unsigned ones the highest, and True in bools.
    """
    require_int64(indices)
    if data.ndim >= 0:
        normalize_axis(axis, data.ndim)
        require_ndim("indices", indices, data.ndim)
    if data.ndim < 0 or indices.ndim < 0:
        return TensorType(None, data.dtype, vdevice=data.vdevice)
    require_read("data", data, [axis], indices.dims)
    return TensorType(indices.dims, data.dtype, indices.ndim, data.vdevice)


def nd_places(indices: Any, batch_dims: int = 0) -> tuple[Any, ...]:
    """The last axis of `indices` taken apart, behind the places of the batch axes themselves."""
    depth, indices = indices.shape[-1], as_places(indices)
    rows = indices.shape[:-1]
    batch = [lax.broadcasted_iota(indices.dtype, rows, a) for a in range(batch_dims)]
    return (*batch, *(indices[..., i] for i in range(depth)))


def _gather_nd_gradient(
    g: Expr, y: Expr, data: Expr, indices: Expr, batch_dims: int
) -> tuple[Partial, ...]:
    if batch_dims:
        rule = traced_gradient("relax.gather_nd")
        return tuple(rule(g, y, data, indices, batch_dims=batch_dims))
    return call("scatter_nd", call("zeros_like", data), indices, g, reduction="add"), None


@op(
    "relax.gather_nd",
    lower=lambda data, indices, batch_dims: read_at(data, nd_places(indices, batch_dims)),
    gradient=_gather_nd_gradient,
    **_PICKED,
)
def gather_nd(data: TensorType, indices: TensorType, batch_dims: int = 0) -> TensorType:
    """The slices of `data` at the places that the last axis of `indices` holds.

    The first `batch_dims` axes of both run together. Places are as for gather_elements.
    """
    require_int64(indices)
    depth = indices.dims[-1] if indices.dims else None
    if data.ndim < 0 or indices.ndim < 0 or not isinstance(depth, int):
        return TensorType(None, data.dtype, vdevice=data.vdevice)
    if batch_dims < 0 or batch_dims > min(data.ndim, indices.ndim - 1):
        limit = min(data.ndim, indices.ndim - 1)
        raise OpError(f"`batch_dims` must be in [0, {limit}], found {batch_dims}")
    if not 1 <= depth + batch_dims <= data.ndim:
        raise OpError(
            f"the last dimension of `indices` must be in [{0 if batch_dims else 1}, "
            f"{data.ndim - batch_dims}], found {depth}"
        )
    assert indices.dims is not None
    if data.dims is None:
        return TensorType(
            None, data.dtype, indices.ndim - 1 + data.ndim - batch_dims - depth, data.vdevice
        )
    read = range(batch_dims, batch_dims + depth)
    require_read("data", data, read, indices.dims[:-1])
    dims = (*indices.dims[:-1], *data.dims[batch_dims + depth :])
    return TensorType(dims, data.dtype, vdevice=data.vdevice)


def index_types(indices: TupleType) -> list[TensorType]:
    types = [ty for ty in indices.fields if isinstance(ty, TensorType)]
    if not types or len(types) < len(indices.fields):
        raise OpError(f"`indices` must be one or more tensors, but its type is {indices}")
    for number, ty in enumerate(types):
        require_integers(ty, f"indices[{number}]")
    return types


def common_places(types: Sequence[TensorType]) -> tuple[Dim, ...] | None:
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
    lower=lambda data, indices: read_at(data, tuple(map(as_places, indices))),
    gradient=_index_tensor_gradient,
    **_PICKED,
)
def index_tensor(data: TensorType, indices: TupleType) -> TensorType:
    """The slices of `data` at places that tensors of indices say, one for each leading axis.

    The tensors broadcast to one another: y[i, ...] = data[indices[0][i], indices[1][i], ..., ...].
    Places are as for gather_elements.
    """
    types = index_types(indices)
    if 0 <= data.ndim < len(types):
        raise OpError(f"`indices` may be at most {data.ndim} tensors, found {len(types)}")
    places = common_places(types)
    require_read("data", data, range(len(types)), places)
    if places is None or data.dims is None:
        return TensorType(None, data.dtype, vdevice=data.vdevice)
    return TensorType((*places, *data.dims[len(types) :]), data.dtype, vdevice=data.vdevice)


def _number_type(value: PrimExpr, name: str) -> PrimType:
    if not isinstance(value.ty, PrimType):
        raise OpError(f"`{name}` must be a number or R.prim_value of one, found {value.ty}")
    return value.ty


def _one_hot(indices: Any, on_value: Any, off_value: Any, depth: int, axis: int) -> Any:
    dtype, indices = _host_dtype(on_value), as_places(indices)
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
    on, off = _number_type(on_value, "on_value"), _number_type(off_value, "off_value")
    if on.dtype != off.dtype:
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
