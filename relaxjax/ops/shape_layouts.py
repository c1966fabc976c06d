"""Layout rules of operators that give the elements another shape."""

from collections.abc import Callable, Sequence

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr, ShapeExpr
from relaxjax.ir.layout import (
    LayoutRule,
    Order,
    Orders,
    Relayout,
    Sensitivity,
    inverse,
    known,
    without,
)
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims
from relaxjax.ir.types import TensorType

from .rearranging import moved_axes, rank, remade


def _order_of(orders: Sequence[Orders]) -> Order | None:
    """The order of the first argument, a tensor."""
    found = orders[0]
    return found if isinstance(found, tuple) else None


def renamed(axes_of: Callable[[Call, int], Sequence[int] | None]) -> LayoutRule:
    """The rule of an operator that does nothing but put axes in another order.

    Its result is the argument as it stands, with its axes known by other numbers. `axes_of` gives
    the axes that a call asks for; None where it does more.
    """

    def follow(call: Call, orders: Sequence[Orders]) -> Relayout | None:
        order = _order_of(orders)
        axes = None if order is None else axes_of(call, len(order))
        if order is None or axes is None:
            return None
        places = inverse(axes)
        return Relayout((order,), known([places[axis] for axis in order]), lambda new: new[0])

    return LayoutRule(Sensitivity.LIGHT, follow)


def _permutation(call: Call, ndim: int) -> Sequence[int]:
    axes = call.attrs["axes"]
    return range(ndim)[::-1] if axes is None else [axis % ndim for axis in axes]


def _reshaped(call: Call, orders: Sequence[Orders]) -> Relayout | None:
    """Axes are taken apart and joined where they stand, if those joined stand side by side."""
    order = _order_of(orders)
    if order is None or not isinstance(call.args[0].ty, TensorType):
        return None
    before, after = call.args[0].ty.dims, known_dims(call)
    groups = None if before is None or after is None else _groups(before, after)
    arranged = None if groups is None else _arranged_groups(groups, order)
    if arranged is None or after is None:
        return None
    moved = [axis for _, new in arranged for axis in new]
    shape = ShapeExpr(tuple(after[axis] for axis in moved))
    args = (order, *[None] * (len(call.args) - 1))
    return Relayout(args, known(moved), lambda new: get_op("relax.reshape")(new[0], shape))


Group = tuple[list[int], list[int]]


def _groups(before: Sequence[Dim], after: Sequence[Dim]) -> list[Group] | None:
    """Runs of axes before and after that hold the same elements; None where that is unknown."""
    old = [dim for dim in before if isinstance(dim, int)]
    new = [dim for dim in after if isinstance(dim, int)]
    if 0 in old or len(old) < len(before) or len(new) < len(after):
        return None
    groups: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        start, begin = i, j
        left = right = 1
        while (i, j) == (start, begin) or left != right:
            if i < len(old) and (left <= right or j == len(new)):
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        groups.append((list(range(start, i)), list(range(begin, j))))
    return groups


def _arranged_groups(groups: Sequence[Group], order: Order) -> list[Group] | None:
    """The groups in the order in which their axes stand; None where they stand mixed."""
    owner = {axis: number for number, (old, _) in enumerate(groups) for axis in old}
    found: list[Group] = []
    rest = list(order)
    while rest:
        old, new = groups[owner[rest[0]]]
        if rest[: len(old)] != old:
            return None
        found.append((old, new))
        rest = rest[len(old) :]
    return found + [group for group in groups if not group[0]]


def _collapsed(call: Call, orders: Sequence[Orders]) -> Relayout | None:
    """The sum over what broadcasting repeats; the shape left has as many axes, or the last ones."""
    order, shape = _order_of(orders), call.args[1]
    if order is None or not isinstance(shape, ShapeExpr):
        return None
    extra = len(order) - len(shape)
    if extra == 0:
        target = ShapeExpr(tuple(shape[axis] for axis in order))
        return Relayout((order, None), order, lambda new: remade(call, new, {"shape": target}))
    summed = [a for a in range(len(order)) if a < extra or shape[a - extra] == 1]
    if without(order, summed) is not None:
        return None

    def rebuild(new: Sequence[Expr]) -> Expr:
        total = get_op("relax.sum")(new[0], moved_axes(summed, order))
        return get_op("relax.reshape")(total, shape)

    return Relayout((order, None), None, rebuild)


def _collapsed_like(call: Call, orders: Sequence[Orders]) -> Relayout | None:
    order = _order_of(orders)
    if order is None or rank(call.args[1]) != len(order):
        return None
    return Relayout((order, order), order, lambda new: remade(call, new, {}))


PERMUTED = renamed(_permutation)
RESHAPED = LayoutRule(Sensitivity.LIGHT, _reshaped)
COLLAPSED = LayoutRule(Sensitivity.LIGHT, _collapsed)
COLLAPSED_LIKE = LayoutRule(Sensitivity.LIGHT, _collapsed_like)
