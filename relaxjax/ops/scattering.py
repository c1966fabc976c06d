"""Writing at places that tensors of indices say."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr, Tuple, Var
from relaxjax.ir.op import GradientRule, Partial
from relaxjax.ir.types import TensorType, TupleType

from .arrays import as_places
from .axis_layouts import axis_rule
from .bounds import has_each, has_elements, has_nd
from .cost_rules import MOVES
from .declare import OpError, op
from .emit import call
from .gathering import common_places, element_places, index_types, nd_places, require_int64
from .index import require_integers
from .lowered_cost import LOWERED
from .scatter_rules import Scatter, is_empty
from .shapes import (
    common_dtype,
    dims_text,
    never_repeated,
    normalize_axis,
    require_choice,
    require_ndim,
    require_numbers,
)
from .traced import traced_gradient, traced_tangent

_WITH_RULES = ("update", "add", "mul")
_REDUCTIONS = (*_WITH_RULES, "mean", "max", "min")


def _mean(data: Any, places: Any, updates: Any) -> Any:
    """Each element's mean with its updates; sums and counts of narrow dtypes would overflow."""
    narrow = jnp.int32 if jnp.issubdtype(data.dtype, jnp.integer) else jnp.float32
    wide = data.dtype if data.dtype.itemsize >= 4 else narrow
    updates = updates.astype(wide)
    totals = data.astype(wide).at[places].add(updates, mode="drop")
    counts = jnp.ones_like(totals).at[places].add(jnp.ones_like(updates), mode="drop")
    return lax.div(totals, counts).astype(data.dtype)


def _require_reduction(reduction: str, data: TensorType) -> None:
    require_choice("reduction", reduction, _REDUCTIONS)
    if reduction == "mean":
        require_numbers("data", data)


def _written(data: Any, places: Any, updates: Any, reduction: str) -> Any:
    """`data` with `updates` at `places`; places outside are left out."""
    spots = data.at[places]
    if reduction == "mean":
        return _mean(data, places, updates)
    writers: dict[str, Callable[..., Any]] = {
        "update": spots.set,
        "add": spots.add,
        "mul": spots.multiply,
        "max": spots.max,
        "min": spots.min,
    }
    return writers[reduction](updates, mode="drop")


def _scatter_elements(data: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    places = element_places(data.shape, indices, axis % data.ndim)
    return _written(data, places, updates, reduction)


def _elements(indices: Expr, axis: int) -> Scatter:
    return Scatter(
        lambda data, updates, reduction: call(
            "scatter_elements", data, indices, updates, axis=axis, reduction=reduction
        ),
        lambda x: call("gather_elements", x, indices, axis=axis),
        lambda data: has_elements(data, indices, axis),
    )


def _gradient(name: str, scatter_of: Callable[..., Scatter]) -> GradientRule:
    """The gradient rule of an operator, whose attributes beside the reduction say where."""

    def gradient(
        g: Expr, y: Var, data: Expr, indices: Expr, updates: Expr, reduction: str, **where: int
    ) -> tuple[Partial, ...]:
        if reduction not in _WITH_RULES and not is_empty(data):
            rule = traced_gradient(name)
            return tuple(rule(g, y, data, indices, updates, reduction=reduction, **where))
        scatter = scatter_of(indices, **where)
        to_data, to_updates = scatter.gradient(g, y, data, updates, reduction)
        return to_data, None, to_updates

    return gradient


def _jvp(name: str, scatter_of: Callable[..., Scatter]) -> Callable[..., Expr]:
    """The tangent rule likewise."""

    def jvp(
        tangents: Sequence[Expr | None],
        y: Var,
        data: Expr,
        indices: Expr,
        updates: Expr,
        reduction: str,
        **where: int,
    ) -> Expr:
        if is_empty(data):
            return call("zeros_like", data)
        if reduction != "mul":
            rule = traced_tangent(name)
            return rule(tangents, y, data, indices, updates, reduction=reduction, **where)
        scatter = scatter_of(indices, **where)
        return scatter.product_tangent(tangents[0], tangents[2], y, data, updates)

    return jvp


@op(
    "relax.scatter_elements",
    layout=axis_rule("axis", arranged=(0, 1, 2)),
    lower=_scatter_elements,
    gradient=_gradient("relax.scatter_elements", _elements),
    jvp=_jvp("relax.scatter_elements", _elements),
    precision="follow",
    facts={"chooses": True},
    cost=LOWERED,
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
    place), add, mul, mean (of integers, cut off towards zero), max, min. Updates at places outside
    are left out.
    """
    _require_reduction(reduction, data)
    require_int64(indices)
    common_dtype(data=data, updates=updates)
    if data.ndim >= 0:
        normalize_axis(axis, data.ndim)
    for name, ty in (("indices", indices), ("updates", updates)):
        if data.ndim >= 0:
            require_ndim(name, ty, data.ndim)
    places, found = indices.dims or (), updates.dims or ()
    if any(map(can_prove_different, places, found)):
        raise OpError(
            f"`updates` must have the shape of `indices`, {dims_text(places)}, "
            f"found {dims_text(found)}"
        )
    return data


def _slices(indices: Expr) -> Scatter:
    places = call("astype", indices, "int64") if _is_narrow(indices) else indices
    return Scatter(
        lambda data, updates, reduction: call(
            "scatter_nd", data, indices, updates, reduction=reduction
        ),
        lambda x: call("gather_nd", x, places),
        lambda data: has_nd(data, places),
    )


def _is_narrow(indices: Expr) -> bool:
    return isinstance(indices.ty, TensorType) and indices.ty.dtype != "int64"


@op(
    "relax.scatter_nd",
    lower=lambda data, indices, updates, reduction: _written(
        data, nd_places(indices), updates, reduction
    ),
    gradient=_gradient("relax.scatter_nd", _slices),
    jvp=_jvp("relax.scatter_nd", _slices),
    precision="follow",
    cost=MOVES,
)
def scatter_nd(
    data: TensorType, indices: TensorType, updates: TensorType, reduction: str = "update"
) -> TensorType:
    """`data` with slices of `updates` at the places that the last axis of `indices` holds.

    They are the places that gather_nd would read, and `reduction` is as for scatter_elements.
    """
    _require_reduction(reduction, data)
    require_integers(indices, "indices")
    common_dtype(data=data, updates=updates)
    depth = indices.dims[-1] if indices.dims else None
    if data.dims is None or not isinstance(depth, int) or updates.dims is None:
        return data
    if not 1 <= depth <= data.ndim:
        raise OpError(f"the last dimension of `indices` must be in [1, {data.ndim}], found {depth}")
    assert indices.dims is not None
    wanted = (*indices.dims[:-1], *data.dims[depth:])
    wrong_rank = len(wanted) != len(updates.dims)
    if wrong_rank or any(map(can_prove_different, wanted, updates.dims)):
        raise OpError(
            f"`updates` must have shape {dims_text(wanted)}, found {dims_text(updates.dims)}"
        )
    return data


def _index_put(data: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    spots = data.at[tuple(map(as_places, indices))]
    return spots.add(values) if accumulate else spots.set(values)


def _index_put_gradient(
    g: Expr, y: Expr, data: Expr, indices: Expr, values: Expr, accumulate: bool
) -> tuple[Expr | None, ...]:
    scatter = Scatter(
        lambda data, values, reduction: call(
            "index_put", data, indices, values, accumulate=reduction == "add"
        ),
        lambda x: call("index_tensor", x, indices),
        lambda data: has_each(data, indices),
    )
    reduction = "add" if accumulate else "update"
    to_data, to_values = scatter.gradient(g, y, data, values, reduction)
    return to_data, None, to_values


def _complete_index_put(indices: Expr, **rest: Any) -> dict[str, Any]:
    """One tensor of indices stands for a tuple of one."""
    return {} if isinstance(indices.ty, TupleType) else {"indices": Tuple((indices,))}


@op(
    "relax.index_put",
    complete=_complete_index_put,
    lower=_index_put,
    gradient=_index_put_gradient,
    precision="follow",
    cost=MOVES,
)
def index_put(
    data: TensorType, indices: TupleType, values: TensorType, accumulate: bool = False
) -> TensorType:
    """`data` with `values` written, or added, at the places that index_tensor would read."""
    types = index_types(indices)
    common_dtype(data=data, values=values)
    if 0 <= data.ndim < len(types):
        raise OpError(f"`indices` may be at most {data.ndim} tensors, found {len(types)}")
    places = common_places(types)
    if places is not None and data.dims is not None and values.dims is not None:
        _require_values(values.dims, (*places, *data.dims[len(types) :]))
    return data


def _require_values(found: Sequence[Dim], wanted: Sequence[Dim]) -> None:
    """What is written must broadcast to the shape of the places where it is written."""
    pairs = zip(reversed(found), reversed(wanted), strict=False)
    if len(found) > len(wanted) or any(never_repeated(f, w) for f, w in pairs):
        raise OpError(
            f"`values` must broadcast to {dims_text(wanted)}, the shape of what index_tensor reads "
            f"from `data` at `indices`, found {dims_text(found)}"
        )
