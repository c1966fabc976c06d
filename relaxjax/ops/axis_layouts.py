"""Layout rules of operators whose attributes name axes: with other numbers they are as good."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from relaxjax.ir.expr import Call, PrimExpr, Tuple
from relaxjax.ir.layout import LayoutRule, Order, Orders, Relayout, known, without
from relaxjax.ir.types import TensorType, TupleType

from .rearranging import carrying, in_all_fields, moved_axes, remade

Changed = tuple[Mapping[str, Any], Orders]


def axis_rule(*names: str, arranged: Sequence[int] = (0,), vectors: bool = False) -> LayoutRule:
    """Of an operator that keeps the shape, with attributes `names` for one axis or several.

    With `vectors`, only the first result is like the argument; the others have one axis.
    """

    def change(call: Call, order: Order) -> Changed | None:
        if any(call.attrs[name] is None for name in names):
            return None
        changes = {name: _moved(call.attrs[name], order) for name in names}
        if vectors and isinstance(call.ty, TupleType):
            return changes, [order, *[None] * (len(call.ty.fields) - 1)]
        return changes, in_all_fields(call, order)

    return carrying(change, *arranged, keeps_rank=not vectors)


def _moved(axes: Any, order: Order) -> Any:
    return moved_axes(axes, order) if isinstance(axes, tuple) else moved_axes([axes], order)[0]


def _reduced(call: Call, order: Order) -> Changed:
    axis, keepdims = call.attrs["axis"], call.attrs["keepdims"]
    if axis is None:
        return {}, None
    gone = [a % len(order) for a in (axis if isinstance(axis, tuple) else (axis,))]
    left = order if keepdims else without(order, gone)
    changes = {"axis": _moved(axis, order)}
    if isinstance(call.ty, TupleType):
        return changes, [left for _ in call.ty.fields]
    return changes, left


def _located(call: Call, order: Order) -> Changed | None:
    """A place along an axis; one in the flattened tensor would be another."""
    return None if call.attrs["axis"] is None else _reduced(call, order)


def _joined(call: Call, order: Order) -> Changed | None:
    axis = call.attrs["axis"]
    return None if axis is None else ({"axis": _moved(axis, order)}, in_all_fields(call, order))


def with_new_axes(order: Order, new: Sequence[int]) -> Order | None:
    """The order of a result that has new axes, at the places `new` in whatever order it is."""
    ndim = len(order) + len(new)
    old = [axis for axis in range(ndim) if axis not in new]
    given = iter(order)
    return known([place if place in new else old[next(given)] for place in range(ndim)])


def _stacked(call: Call, order: Order) -> Changed:
    along = call.attrs["axis"] % (len(order) + 1)
    return {"axis": along}, with_new_axes(order, [along])


def _expanded(call: Call, order: Order) -> Changed:
    axes = call.attrs["axis"]
    ndim = len(order) + len(axes)
    return {}, with_new_axes(order, [axis % ndim for axis in axes])


def _expanded_in(call: Call, order: Order) -> Relayout:
    """New axes wherever the order has them."""
    axes = [axis % len(order) for axis in call.attrs["axis"]]
    places = tuple(place for place, axis in enumerate(order) if axis in axes)
    given = without(order, axes)
    return Relayout((given,), order, lambda new: remade(call, new, {"axis": places}))


def _squeezed(call: Call, order: Order) -> Changed | None:
    ty, axis = call.args[0].ty, call.attrs["axis"]
    if not isinstance(ty, TensorType) or ty.dims is None:
        return None
    asked = range(len(order)) if axis is None else [a % len(order) for a in axis]
    gone = [a for a in asked if ty.dims[a] == 1]
    changes = {} if axis is None else {"axis": _moved(axis, order)}
    return changes, without(order, gone)


def _padded(call: Call, order: Order) -> Changed:
    widths = call.attrs["pad_width"]
    pairs = [widths[2 * axis : 2 * axis + 2] for axis in order]
    return {"pad_width": tuple(width for pair in pairs for width in pair)}, order


def _tiled(call: Call, order: Order) -> Changed | None:
    repeats = call.attrs["repeats"]
    if len(repeats) > len(order):
        return None
    full = (1,) * (len(order) - len(repeats)) + repeats
    return {"repeats": tuple(full[axis] for axis in order)}, order


def _sliced(call: Call, order: Order) -> Changed | None:
    axes = call.args[1]
    places = [item.value for item in axes if isinstance(item, PrimExpr)]
    numbers = [place for place in places if isinstance(place, int)]
    if not isinstance(axes, Tuple) or len(numbers) < len(axes.fields):
        return None
    return {"axes": Tuple(tuple(map(PrimExpr, moved_axes(numbers, order))))}, order


def _taken(call: Call, order: Order) -> Changed | None:
    """Of a vector of indices; a single one takes the axis away."""
    axis, ty = call.attrs["axis"], call.args[1].ty
    count = ty.ndim if isinstance(ty, TensorType) else 0
    if axis is None or count not in (0, 1):
        return None
    result = order if count else without(order, [axis % len(order)])
    return {"axis": _moved(axis, order)}, result


ONE_AXIS = axis_rule("axis")
REDUCED = carrying(_reduced)
LOCATED = carrying(_located)
JOINED = carrying(_joined, keeps_rank=True)
SPLIT = carrying(_joined)
STACKED = carrying(_stacked)
EXPANDED = replace(carrying(_expanded), produce=_expanded_in)
SQUEEZED = carrying(_squeezed)
PADDED = carrying(_padded, keeps_rank=True)
TILED = carrying(_tiled, keeps_rank=True)
SLICED = carrying(_sliced, keeps_rank=True)
TAKEN = carrying(_taken)
