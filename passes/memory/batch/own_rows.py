"""Gathers and scatters by pairs of places, of which one counts an axis: as ones by batches.

`states[lengths - 1, arange(n)]` reads for each sample of its own states, which is to be seen where
these are of a part. It is done where a batch is split alone: XLA's compiler for CPUs takes 0.9 to
1.2 of the time of the pairs for either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relaxjax.ir.expr import Call, Constant, Expr
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.op import Op, get_op, operator_name
from relaxjax.ir.tensor_types import known_dtype, static_dims
from relaxjax.ir.types import is_integer
from relaxjax.ir.uses import Uses
from relaxjax.passes.simplification.tensors import fill


@dataclass(frozen=True)
class _Names:
    """How an operator calls its numbers of axes."""

    numbers: str
    dropped: str  # axes of the table of which one place is taken
    places: str  # the axis of the table for each column of places
    own: str  # axes of the table of which each place reads its own
    of_places: str  # and those of the places


_GATHER = _Names(
    "GatherDimensionNumbers",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER = _Names(
    "ScatterDimensionNumbers",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)


@law("lax.gather")
def gather_of_own_rows(call: Call, op: Op, known: Uses) -> Expr | None:
    """x[i, arange(n)] reads of the n parts of x, each with its own place."""
    return _by_own_rows(call, op, known, _GATHER)


@law(*(f"lax.scatter{kind}" for kind in ("", "_add", "_mul", "_min", "_max")))
def scatter_to_own_rows(call: Call, op: Op, known: Uses) -> Expr | None:
    """x.at[i, arange(n)] changes the n parts of x, each at its own place."""
    return _by_own_rows(call, op, known, _SCATTER)


OWN_ROWS = Laws([gather_of_own_rows, scatter_to_own_rows])


def _by_own_rows(call: Call, op: Op, known: Uses, names: _Names) -> Expr | None:
    table, places, *others = call.args
    numbers: dict[str, Any] = dict(call.attrs["dimension_numbers"][names.numbers])
    columns, dims, of = _columns(places, known), static_dims(table.ty), static_dims(places.ty)
    if dims is None or of is None or len(columns) < 2:
        return None
    first = 0
    for at, column in enumerate(columns):
        counted = _counted(column, known)
        axis = numbers[names.places][first]
        if (
            _width(column) == 1
            and counted is not None
            and counted != len(of) - 1
            and counted not in numbers[names.of_places]
            and axis in numbers[names.dropped]
            and dims[axis] == of[counted]
        ):
            rest = [*columns[:at], *columns[at + 1 :]]
            attrs = {**call.attrs, "indices_are_sorted": False}
            attrs["dimension_numbers"] = {
                names.numbers: _without(numbers, names, first, axis, counted)
            }
            return Call(op, [table, _joined(rest, len(of) - 1), *others], attrs)
        first += _width(column)
    return None


def _without(
    numbers: dict[str, Any], names: _Names, column: int, axis: int, counted: int
) -> dict[str, Any]:
    """The numbers without a column of places, which counts an axis of them for one of the table."""
    pairs = zip(numbers[names.own], numbers[names.of_places], strict=True)
    own = sorted([*pairs, (axis, counted)])
    places = [*numbers[names.places]]
    del places[column]
    return {
        **numbers,
        names.dropped: [one for one in numbers[names.dropped] if one != axis],
        names.places: places,
        names.own: [one for one, _ in own],
        names.of_places: [one for _, one in own],
    }


def _columns(places: Expr, known: Uses) -> Sequence[Expr]:
    """The columns of places, where these are several side by side."""
    joined, dims = known.call(places, "lax.concatenate"), static_dims(places.ty)
    if joined is None or dims is None or joined.attrs["dimension"] != len(dims) - 1:
        return []
    return joined.args if all(static_dims(one.ty) for one in joined.args) else []


def _width(column: Expr) -> int:
    dims = static_dims(column.ty)
    assert dims
    return dims[-1]


def _joined(columns: Sequence[Expr], axis: int) -> Expr:
    return columns[0] if len(columns) == 1 else get_op("lax.concatenate")(*columns, dimension=axis)


def _counted(expr: Expr, known: Uses) -> int | None:
    """The axis of which each number of a tensor is its place there, if that is known."""
    dtype, dims = known_dtype(expr), static_dims(expr.ty)
    if dims is None or 0 in dims or not is_integer(dtype):
        return None
    if isinstance(expr, Constant):
        return _counted_by(np.asarray(expr.data))
    call = known.call(expr)
    axis = None if call is None else _counted_by_call(call, dims, known)
    is_told = axis is not None and dims[axis] - 1 <= np.iinfo(np.dtype(str(dtype))).max
    return axis if is_told else None


def _counted_by(data: Any) -> int | None:
    for axis, size in enumerate(data.shape):
        if size > 1:
            count = np.arange(size).reshape([-1] + [1] * (data.ndim - 1 - axis))
            if (data == count).all():
                return axis
    return None


def _counted_by_call(call: Call, dims: Sequence[int], known: Uses) -> int | None:
    name = operator_name(call)
    if name == "lax.iota":
        return int(call.attrs["dimension"])
    if name == "lax.select_n" and len(call.args) == 3:
        return _counted(call.args[1], known) if _is_never(call.args[0], known) else None
    axis = _counted(call.args[0], known) if name in _MOVING else None
    old = static_dims(call.args[0].ty) if call.args else None
    return None if axis is None or old is None else _moved(call, axis, old, dims)


def _moved(call: Call, axis: int, old: Sequence[int], dims: Sequence[int]) -> int | None:
    """Where an axis of a tensor is in what moves or repeats its numbers."""
    name = operator_name(call)
    if name == "lax.broadcast_in_dim":
        found = int(call.attrs["broadcast_dimensions"][axis])
        return found if dims[found] == old[axis] else None
    if name in ("lax.convert_element_type", "relax.grad.delay"):
        return axis
    if name == "lax.transpose":
        return [*call.attrs["permutation"]].index(axis)
    if name == "lax.reshape" and call.attrs.get("dimensions") is not None:
        return None  # an order of axes before that
    # A reshape or a squeeze: the axis is where as many numbers are around it, and as many in it.
    around = np.prod(old[:axis], dtype=int)
    return next(
        (
            at
            for at, size in enumerate(dims)
            if size == old[axis] and np.prod(dims[:at], dtype=int) == around
        ),
        None,
    )


def _is_never(condition: Expr, known: Uses) -> bool:
    """Whether it is known to be false: JAX asks whether places are below 0, which no count is."""
    if isinstance(condition, Constant):
        return not np.asarray(condition.data).any()
    asked = known.call(condition, "lax.lt")
    is_below = asked is not None and fill(asked.args[1], known) == 0
    return asked is not None and is_below and _counted(asked.args[0], known) is not None


_MOVING = frozenset(
    {
        *("lax.broadcast_in_dim", "lax.convert_element_type", "relax.grad.delay"),
        *("lax.transpose", "lax.reshape", "lax.squeeze"),
    }
)
