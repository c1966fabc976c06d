"""Gradients of tables as rows and places: what a lookup reads is a few rows of many.

`R.grad.rows(values, places, shape)` is a tensor like any other, made whole where something needs
it. Passes that know the form keep its parts: they add and scale the values, and update tables by
them in place.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr, ShapeExpr, np_dtype
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ir.wording import counted

from .arrays import as_places
from .cost_rules import MOVES
from .creation import shaped
from .declare import OpError, op
from .emit import as_places as places_of
from .emit import call, ndim_of, number, scalar
from .emit import where as choose
from .index import require_integers
from .platform import by_platform
from .shapes import common_dtype, dims_text, element_count, require_numbers
from .traced import traced_gradient, traced_tangent

_TAKEN_BY = lax.GatherScatterMode.FILL_OR_DROP  # places before the first row are outside, too


def _require_rows(
    values: TensorType, places: TensorType, dims: Sequence[Dim] | None, rank: int
) -> None:
    """Raise where there is not one row of a tensor of so many dimensions for each place."""
    require_integers(places, "places")
    require_numbers("values", values)
    if rank == 0:
        raise OpError("a tensor without dimensions has no rows")
    if -1 not in (values.ndim, places.ndim, rank) and values.ndim != places.ndim + rank - 1:
        raise OpError(
            f"`values` must have {counted(places.ndim + rank - 1, 'dimension')}, "
            f"those of `places` and of a row, found {values.ndim}"
        )
    if values.dims is None or places.dims is None or dims is None:
        return
    wanted = (*places.dims, *dims[1:])
    if any(map(can_prove_different, wanted, values.dims)):
        raise OpError(
            f"`values` must have shape {dims_text(wanted)}, one row for each place, found "
            f"{dims_text(values.dims)}"
        )


def _scattered(data: Any, values: Any, places: Any, scatter: Callable[..., Any]) -> Any:
    places = as_places(places)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(places.ndim, values.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    return scatter(data, places[..., None], values, numbers, mode=_TAKEN_BY)


def _rows(values: Any, places: Any, shape: Any) -> Any:
    return _scattered(jnp.zeros(shape, values.dtype), values, places, lax.scatter_add)


def _rows_gradient(g: Expr, y: Expr, values: Expr, places: Expr, shape: Expr) -> Any:
    """The rows of the adjoint at the places, and zeros for what lies outside."""
    assert isinstance(shape, ShapeExpr)
    spots = places_of(places)
    last = number(shape.values[0], spots) - 1
    inside = call("maximum", call("minimum", spots, last), scalar(0, spots))
    valid = call("equal", inside, spots)
    after = [-1 - axis for axis in range(ndim_of(g) - 1)]
    taken = call("take", g, inside, axis=0, mode="clip")
    kept = call("expand_dims", valid, after) if after else valid
    return choose(kept, taken, scalar(0, g)), None, None


@op(
    "relax.grad.rows",
    lower=_rows,
    gradient=_rows_gradient,
    jvp=traced_tangent("relax.grad.rows"),
    cost=MOVES,
)
def rows(values: TensorType, places: TensorType, shape: ShapeExpr) -> TensorType:
    """The tensor of `shape` that has `values` added up in its rows at `places`, and zeros else.

    So the gradient of a table by what `take` reads of it is written. Passes that know the form
    keep it, and it is made whole where something else needs it. Places outside count for nothing.
    """
    found = shaped(shape, values.dtype)
    _require_rows(values, places, found.dims, found.ndim)
    return TensorType(found.shape, values.dtype, found.ndim, values.vdevice)


def _summed_rows(values: Any, places: Any, shape: Any, on_cpu: bool = False) -> Any:
    """Places in order, each once; a row is added up in the slot of its place."""
    length, row = shape[0], shape[1:]
    spots = as_places(places).reshape(-1)
    values = values.reshape(spots.size, *row)
    outside = (spots < 0) | (spots >= length)
    spots = jnp.where(outside, jnp.asarray(length, spots.dtype), spots)
    # On a CPU it takes longer to sort the numbers of the rows with the places than to look the
    # places up again, for which their count must be known. Elsewhere that is a loop of small steps.
    looked_up = on_cpu and isinstance(spots.size, int)
    numbers = lax.iota(spots.dtype, spots.size)
    if looked_up:
        ordered = lax.sort(spots, is_stable=False)
    else:
        ordered, numbers = lax.sort((spots, numbers), num_keys=1, is_stable=False)
    before = lax.pad(ordered, jnp.full((), -1, spots.dtype), [(1, -1, 0)])
    slots = jnp.cumsum(ordered != before, dtype=spots.dtype) - jnp.ones((), spots.dtype)
    found = jnp.full_like(spots, length).at[slots].set(ordered)
    if looked_up:
        own = jnp.searchsorted(found, spots).astype(spots.dtype)
    else:
        own = jnp.zeros_like(spots).at[numbers].set(slots, unique_indices=True)
    own = jnp.where(outside, jnp.asarray(spots.size, spots.dtype), own)
    return _scattered(jnp.zeros_like(values), values, own, lax.scatter_add), found


@op(
    "relax.grad.summed_rows",
    lower=by_platform(_summed_rows, cpu=partial(_summed_rows, on_cpu=True)),
    gradient=traced_gradient("relax.grad.summed_rows"),
    jvp=traced_tangent("relax.grad.summed_rows"),
    cost=MOVES,
)
def summed_rows(values: TensorType, places: TensorType, shape: ShapeExpr) -> TupleType:
    """The values and places of `rows` with each place once, in order, as a pair.

    There are as many as before: at the end stand rows of zeros, at the place behind the last row.
    """
    found = shaped(shape, values.dtype)
    _require_rows(values, places, found.dims, found.ndim)
    spots = _places_dtype(places.dtype)
    if found.dims is None or places.dims is None:
        summed = TensorType(None, values.dtype, found.ndim, values.vdevice)
        return TupleType((summed, TensorType(None, spots, 1, places.vdevice)))
    count = element_count(places.dims)
    summed = TensorType((count, *found.dims[1:]), values.dtype, vdevice=values.vdevice)
    return TupleType((summed, TensorType((count,), spots, vdevice=places.vdevice)))


def _places_dtype(dtype: str | None) -> str | None:
    if dtype in ("int32", "int64", None):
        return dtype
    return "int32" if np_dtype(dtype).itemsize < 4 else "int64"


def _put_rows(data: Any, values: Any, places: Any, accumulate: bool) -> Any:
    return _scattered(data, values, places, lax.scatter_add if accumulate else lax.scatter)


@op(
    "relax.grad.put_rows",
    lower=_put_rows,
    gradient=traced_gradient("relax.grad.put_rows"),
    jvp=traced_tangent("relax.grad.put_rows"),
    precision="follow",
    cost=MOVES,
)
def put_rows(
    data: TensorType, values: TensorType, places: TensorType, accumulate: bool = False
) -> TensorType:
    """`data` with `values` as its rows at `places`, or added to them with `accumulate`.

    Unless they are added, no place may come twice. Places outside count for nothing.
    """
    common_dtype(data=data, values=values)
    _require_rows(values, places, data.dims, data.ndim)
    return data
