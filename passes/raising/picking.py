"""What a gather picks: one element of each row of a tensor, by the number of its column."""

import math
from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Constant, Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, known_ndim, static_dims

from .reading import Reading, View

_FILLING, _PROMISED = (
    Attrs(GatherScatterMode=name) for name in ("FILL_OR_DROP", "PROMISE_IN_BOUNDS")
)


def picked_column(gather: Call, reading: Reading) -> Expr | None:
    """The numbers of the columns, in the order of the rows, where each row gives one element."""
    data, places = gather.args
    dims, last = known_dims(data), known_ndim(data) - 1
    if dims is None or last < 1 or set(gather.attrs["slice_sizes"]) != {1}:
        return None
    numbers = _numbers(gather)
    if not _is_nan_outside(gather) or numbers["offset_dims"]:
        return None
    rows = tuple(range(last))
    by_row = (rows, rows, (last,), (last,))
    if _batching(numbers) == by_row and known_dims(places) == (*dims[:-1], 1, 1):
        return places
    everywhere = ((), (), (0, 1), (0, 1))
    if last != 1 or _batching(numbers) != everywhere or known_dims(places) != (dims[0], 2):
        return None
    return _second(places, reading)


def _is_nan_outside(gather: Call) -> bool:
    """Whether a place outside of the data gives NaN, or is promised not to be."""
    value = gather.attrs.get("fill_value")
    return gather.attrs["mode"] == _PROMISED or (
        fills(gather) and (value is None or math.isnan(value))
    )


def fills(gather: Call) -> bool:
    """Whether what lies outside of the data is filled up."""
    return bool(gather.attrs["mode"] == _FILLING)


def _second(places: Expr, reading: Reading) -> Expr | None:
    """The columns of pairs (0, a), (1, b) and so on."""
    joined = reading.call(places, "concatenate")
    if joined is None or len(joined.args) != 2 or joined.attrs["dimension"] != 1:
        return None
    rows, columns = joined.args
    if known_dims(rows) != known_dims(columns) or not _counts(rows, reading):
        return None
    return columns


def _counts(rows: Expr, reading: Reading) -> bool:
    """Whether a column is 0, 1, 2 and so on; JAX adds the length where that is below 0."""
    view = reading.peeled(View.whole(rows))
    if isinstance(view.expr, Constant):
        data = view.expr.data
        return view.axes == (0,) and data.tolist() == list(range(data.size))
    chosen = reading.args(view, "select_n")
    if chosen is not None and len(chosen) == 3:
        asked = reading.with_number(chosen[0], "lt")
        if asked is None or asked[1] != 0 or asked[0].expr is not chosen[1].expr:
            return False
        view = chosen[1]
    return view.axes == (0,) and reading.call(view.expr, "iota") is not None


def bare(expr: Expr, reading: Reading) -> Expr:
    """What `expr` has all elements of, in the same order, in another shape."""
    while (inner := _same_elements(expr, reading)) is not None:
        expr = inner
    return expr


def _same_elements(expr: Expr, reading: Reading) -> Expr | None:
    call = reading.call(expr, "reshape", "squeeze", "gather", "relax.reshape", "relax.squeeze")
    if call is None or (call.op is get_op("lax.gather") and not _picks_only_place(call)):
        return None
    turned = call.op is get_op("lax.reshape") and call.attrs.get("dimensions") is not None
    return None if turned else call.args[0]


def _picks_only_place(gather: Call) -> bool:
    """Whether all there is along some axes of one element is picked, by a number that is known."""
    data, places = gather.args
    shape, numbers = static_dims(data.ty), _numbers(gather)
    kept = len(numbers["offset_dims"]) + len(numbers["collapsed_slice_dims"]) == known_ndim(data)
    whole = isinstance(places, Constant) and not places.data.any() and places.data.ndim == 1
    return whole and kept and gather.attrs["slice_sizes"] == shape


def _numbers(gather: Call) -> Any:
    return gather.attrs["dimension_numbers"]["GatherDimensionNumbers"]


def _batching(numbers: Any) -> tuple[Any, ...]:
    names = ("operand_batching_dims", "start_indices_batching_dims")
    return tuple(numbers[name] for name in (*names, "collapsed_slice_dims", "start_index_map"))
