"""Operators that give the same elements another shape, and those that undo broadcasting."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different, floordiv
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.types import TensorType
from relaxjax.ir.wording import counted

from .arrays import added_up
from .axis_layouts import EXPANDED, SQUEEZED
from .conversions import Axes
from .cost_rules import MOVES, REDUCES, VIEWS
from .creation import shaped
from .declare import OpError, op
from .emit import call, shape_of
from .rearranging import BROADCAST
from .shape_layouts import COLLAPSED, COLLAPSED_LIKE, RESHAPED
from .shapes import dims_text, element_count, never_repeated, normalize_axes

_MOVES: dict[str, Any] = {"precision": "follow", "fusion": "injective", "facts": {"moves": True}}


def on_device_of(ty: TensorType, x: TensorType) -> TensorType:
    """`ty`, on the device that `x` is on."""
    return TensorType(ty.shape, ty.dtype, ty.ndim if ty.shape is None else -1, x.vdevice)


def _resolve_shape(x: Expr, shape: Expr) -> Mapping[str, Any]:
    """The shape with a dimension in the place of each -1 (what is left) and 0 (the same of `x`)."""
    if not isinstance(shape, ShapeExpr) or not isinstance(x.ty, TensorType):
        return {}
    if 0 not in shape.values and -1 not in shape.values:
        return {}
    if x.ty.dims is None:
        raise OpError(
            "`shape` has a dimension to infer (-1 or 0), "
            f"but the shape of `x` is unknown: its type is {x.ty}"
        )
    return {"shape": ShapeExpr(_resolved(x.ty.dims, shape.values))}


def _resolved(dims: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[Dim, ...]:
    kept = [_copied(dims, axis) if dim == 0 else dim for axis, dim in enumerate(wanted)]
    if kept.count(-1) > 1:
        raise OpError(f"`shape` may have one -1, found {dims_text(wanted)}")
    total, known = element_count(dims), element_count([dim for dim in kept if dim != -1])
    if -1 not in kept:
        # In a tensor without elements a 0 that copies nothing fitting is a 0.
        return tuple(wanted) if total == 0 and known != 0 else tuple(kept)
    if isinstance(total, int) and isinstance(known, int) and known and total % known:
        raise OpError(f"in `shape` the -1 of {dims_text(kept)} has no value for {total} elements")
    left = 0 if known == 0 else floordiv(total, known)
    return tuple(left if dim == -1 else dim for dim in kept)


def _copied(dims: Sequence[Dim], axis: int) -> Dim:
    if axis < len(dims):
        return dims[axis]
    if element_count(dims) == 0:
        return 0
    raise OpError(f"the 0 at {axis} in `shape` has no dimension to copy: `x` is {dims_text(dims)}")


@op(
    "relax.reshape",
    layout=RESHAPED,
    complete=_resolve_shape,
    lower=lambda x, shape: lax.reshape(x, shape),
    gradient=lambda g, y, x, shape: (call("reshape", g, shape_of(x)), None),
    **_MOVES,
    cost=VIEWS,
)
def reshape(x: TensorType, shape: ShapeExpr) -> TensorType:
    """The elements of `x`, in their order, in another shape. A -1 stands for whatever is left."""
    ty = shaped(shape, x.dtype)
    wanted = ty.dims
    if x.dims is not None and wanted is not None:
        before, after = element_count(x.dims), element_count(wanted)
        if can_prove_different(before, after):
            raise OpError(
                f"`shape` must have as many elements as `x`, but {dims_text(x.dims)} has {before} "
                f"and {dims_text(wanted)} has {after}"
            )
    return on_device_of(ty if wanted is None else TensorType(wanted, x.dtype), x)


@op(
    "relax.flatten",
    layout=RESHAPED,
    lower=lambda x: lax.reshape(x, (x.size,)),
    gradient=lambda g, y, x: call("reshape", g, shape_of(x)),
    **_MOVES,
    cost=VIEWS,
)
def flatten(x: TensorType) -> TensorType:
    """The elements of `x`, in their order, along one axis."""
    dims = None if x.dims is None else (element_count(x.dims),)
    return TensorType(dims, x.dtype, 1, x.vdevice)


@op(
    "relax.expand_dims",
    layout=EXPANDED,
    lower=lambda x, axis: lax.expand_dims(x, axis) if axis else x,
    gradient=lambda g, y, x, axis: call("squeeze", g, axis),
    **_MOVES,
    cost=VIEWS,
)
def expand_dims(x: TensorType, axis: Axes) -> TensorType:
    """`x` with new axes of length 1, so that they stand at `axis` in the result."""
    if x.ndim < 0:
        return x
    ndim = x.ndim + len(axis)
    new = normalize_axes(axis, ndim)
    if x.dims is None:
        return TensorType(None, x.dtype, ndim, x.vdevice)
    old = iter(x.dims)
    dims = tuple(1 if place in new else next(old) for place in range(ndim))
    return TensorType(dims, x.dtype, vdevice=x.vdevice)


def _squeeze(x: Any, axis: Any) -> Any:
    given = range(x.ndim) if axis is None else axis
    for place in given:
        if not isinstance(x.shape[place], int):
            raise OpError(
                f"the axis {place} has the length {x.shape[place]}, which must be known to be 1 "
                "when the program is compiled: give the size by BindSymbolicVars, or R.match_cast"
            )
    return lax.squeeze(x, [a for a in given if x.shape[a] == 1])


@op(
    "relax.squeeze",
    layout=SQUEEZED,
    lower=_squeeze,
    gradient=lambda g, y, x, axis: call("reshape", g, shape_of(x)),
    **_MOVES,
    cost=VIEWS,
)
def squeeze(x: TensorType, axis: Axes | None = None) -> TensorType:
    """`x` without the axes `axis`, or without all of length 1. One of another length stays."""
    gone = None if axis is None or x.ndim < 0 else normalize_axes(axis, x.ndim)
    if x.dims is None:
        known = gone is not None
        return TensorType(None, x.dtype, x.ndim - len(gone or ()) if known else -1, x.vdevice)
    if gone is None:
        if not all(isinstance(dim, int) for dim in x.dims):
            return TensorType(None, x.dtype, vdevice=x.vdevice)
        gone = tuple(range(x.ndim))
    kept = [
        dim
        for place, dim in enumerate(x.dims)
        if place not in gone or (isinstance(dim, int) and dim != 1)
    ]
    return TensorType(kept, x.dtype, vdevice=x.vdevice)


@op(
    "relax.broadcast_to",
    layout=BROADCAST,
    lower=jnp.broadcast_to,
    gradient=lambda g, y, x, shape: (call("collapse_sum_to", g, shape_of(x)), None),
    precision="follow",
    fusion="broadcast",
    facts={"moves": True},
    cost=MOVES,
)
def broadcast_to(x: TensorType, shape: ShapeExpr) -> TensorType:
    """`x` repeated along axes of length 1, and along new ones in front, until it has `shape`."""
    ty = on_device_of(shaped(shape, x.dtype), x)
    if x.ndim > ty.ndim >= 0:
        raise OpError(
            f"`shape` must have at least {counted(x.ndim, 'dimension')}, as `x`, found {ty.ndim}"
        )
    _require_broadcast(x.dims, ty.dims, "x")
    return ty


def _require_broadcast(small: Sequence[Dim] | None, large: Sequence[Dim] | None, name: str) -> None:
    """Shapes of which the first cannot broadcast to the second are an error."""
    if small is None or large is None:
        return
    fits = len(small) <= len(large) and not any(
        never_repeated(dim, wanted)
        for dim, wanted in zip(reversed(small), reversed(large), strict=False)
    )
    if not fits:
        raise OpError(
            f"`{name}` of shape {dims_text(small)} does not broadcast to {dims_text(large)}"
        )


def _collapse(data: Any, shape: Any) -> Any:
    """The sum over the axes that broadcasting `shape` to the shape of `data` repeats."""
    extra = data.ndim - len(shape)
    repeated = [
        a for a in range(data.ndim) if a < extra or (shape[a - extra] == 1 != data.shape[a])
    ]
    return lax.reshape(added_up(data, repeated), shape) if repeated else data


@op(
    "relax.collapse_sum_to",
    layout=COLLAPSED,
    lower=_collapse,
    gradient=lambda g, y, data, shape: (call("broadcast_to", g, shape_of(data)), None),
    fusion="reduction",
    cost=REDUCES,
)
def collapse_sum_to(data: TensorType, shape: ShapeExpr) -> TensorType:
    """The sum over what broadcasting to the shape of `data` repeats: broadcast_to's adjoint."""
    ty = on_device_of(shaped(shape, data.dtype), data)
    _require_broadcast(ty.dims, data.dims, "shape")
    return ty


@op(
    "relax.collapse_sum_like",
    layout=COLLAPSED_LIKE,
    lower=lambda data, collapse_target: _collapse(data, collapse_target.shape),
    gradient=lambda g, y, data, target: (call("broadcast_to", g, shape_of(data)), None),
    canonical=lambda data, target: call("collapse_sum_to", data, shape_of(target)),
    fusion="reduction",
    cost=REDUCES,
)
def collapse_sum_like(data: TensorType, collapse_target: TensorType) -> TensorType:
    """The sum of `data` over what broadcasting from the shape of `collapse_target` repeats."""
    _require_broadcast(collapse_target.dims, data.dims, "collapse_target")
    shape, ndim = collapse_target.shape, collapse_target.ndim
    return TensorType(shape, data.dtype, ndim if shape is None else -1, data.vdevice)
