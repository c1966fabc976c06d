"""Layout rules of operators that do not care where axes stand, and what all such rules share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr, ShapeExpr
from relaxjax.ir.layout import (
    LayoutRule,
    Order,
    Orders,
    Relayout,
    Sensitivity,
    first_order,
    inverse,
)
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, fields_of, get_op
from relaxjax.ir.types import TensorType, TupleType

# What changes in a call whose first tensor is in a given order: arguments and attributes by their
# names; and the orders of the result. None where the call cannot be computed so.
Change = Callable[[Call, Order], "tuple[Mapping[str, Any], Orders] | None"]


def rank(expr: Expr) -> int:
    """The number of axes of a tensor: 0 for anything else, -1 where it is unknown."""
    return expr.ty.ndim if isinstance(expr.ty, TensorType) else 0


def remade(call: Call, args: Sequence[Expr], changes: Mapping[str, Any]) -> Call:
    """A call on other arguments, with some of them and of the attributes given by name."""
    assert isinstance(call.op, Op)
    names = [param.name for param in call.op.params if param.is_arg and not param.variadic]
    named = zip(names, args, strict=False)
    given = [*(changes.get(name, arg) for name, arg in named), *args[len(names) :]]
    attrs = {name: value for name, value in changes.items() if name in call.attrs}
    return replace(call, args=tuple(given), attrs=call.attrs.updated(**attrs), ty=None)


def in_all_fields(expr: Expr, order: Order) -> Orders:
    """One order for a tensor, or for each of a tuple's."""
    if not isinstance(expr.ty, TupleType):
        return order
    return [order for _ in expr.ty.fields]


def same_order(call: Call, order: Order) -> tuple[Mapping[str, Any], Orders]:
    """Nothing changes, and the result is in the order of the argument."""
    return {}, in_all_fields(call, order)


def carrying(change: Change, *arranged: int, keeps_rank: bool = False) -> LayoutRule:
    """The rule of an operator whose attributes name axes of its arguments at `arranged`.

    These all have one rank, the first of them if none is named. Where `keeps_rank` is set, the
    result is in the order of the arguments.
    """
    places = arranged or (0,)

    def at(call: Call, order: Order) -> Relayout | None:
        ranks = {
            rank(field) for p in places if p < len(call.args) for field in fields_of(call.args[p])
        }
        changed = change(call, order) if ranks == {len(order)} else None
        if changed is None:
            return None
        changes, result = changed
        args = tuple(
            in_all_fields(arg, order) if place in places else None
            for place, arg in enumerate(call.args)
        )
        return Relayout(args, result, lambda new: remade(call, new, changes))

    def follow(call: Call, orders: Sequence[Orders]) -> Relayout | None:
        order = first_order([orders[place] for place in places if place < len(orders)])
        return None if order is None else at(call, order)

    return LayoutRule(Sensitivity.LIGHT, follow, at if keeps_rank else None)


def agnostic(change: Change = same_order) -> LayoutRule:
    """The rule of an operator whose tensors broadcast to the shape of the result."""

    def at(call: Call, order: Order) -> Relayout | None:
        ranks = [rank(arg) for arg in call.args]
        changed = change(call, order) if rank(call) == len(order) and -1 not in ranks else None
        if changed is None or max(ranks, default=0) > len(order):
            return None
        changes, result = changed

        def rebuild(args: Sequence[Expr]) -> Expr:
            return remade(call, [_spread(arg, order) for arg in args], changes)

        args = tuple(order if ndim == len(order) else None for ndim in ranks)
        return Relayout(args, result, rebuild)

    def follow(call: Call, orders: Sequence[Orders]) -> Relayout | None:
        full = [o for o, arg in zip(orders, call.args, strict=True) if rank(arg) == rank(call)]
        order = first_order(full)
        return None if order is None else at(call, order)

    return LayoutRule(Sensitivity.AGNOSTIC, follow, at)


def _spread(arg: Expr, order: Order) -> Expr:
    """A tensor that broadcasts beside others, made to broadcast beside them in their new order."""
    ndim = rank(arg)
    if not isinstance(arg.ty, TensorType) or ndim in (0, len(order)):
        return arg
    dims = arg.ty.dims
    if dims is not None and sum(dim != 1 for dim in dims) <= 1:
        return _vector_spread(arg, dims, order)
    full = get_op("relax.expand_dims")(arg, list(range(len(order) - ndim)))
    return get_op("relax.permute_dims")(full, order)


def _vector_spread(arg: Expr, dims: Sequence[Dim], order: Order) -> Expr:
    """The same of a tensor that has elements along one axis only: no element moves."""
    full = (1,) * (len(order) - len(dims)) + tuple(dims)
    wanted = [full[axis] for axis in order]
    while len(wanted) > 1 and wanted[0] == 1:
        del wanted[0]
    return arg if tuple(wanted) == dims else get_op("relax.reshape")(arg, ShapeExpr(tuple(wanted)))


AGNOSTIC = agnostic()
# As AGNOSTIC, of the first argument only, and also for operators with a tuple of results.
LIKE_DATA = carrying(same_order, keeps_rank=True)


def shape_rearranged(call: Call, order: Order) -> tuple[Mapping[str, Any], Orders] | None:
    """The argument `shape` changes: it must be written out."""
    assert isinstance(call.op, Op)
    place = [param.name for param in call.op.params if param.is_arg].index("shape")
    shape = call.args[place]
    if not isinstance(shape, ShapeExpr) or len(shape) != len(order):
        return None
    return {"shape": ShapeExpr(tuple(shape[axis] for axis in order))}, order


def moved_axes(axes: Sequence[int], order: Order) -> tuple[int, ...]:
    """Where axes stand after rearranging."""
    places = inverse(order)
    return tuple(places[axis % len(order)] for axis in axes)


def _created(call: Call, order: Order) -> Relayout | None:
    changed = shape_rearranged(call, order)
    if changed is None:
        return None
    return Relayout((None,) * len(call.args), order, lambda new: remade(call, new, changed[0]))


BROADCAST = agnostic(shape_rearranged)
# Operators whose result is as good in any order, because nothing is put in.
CREATED = LayoutRule(Sensitivity.AGNOSTIC, lambda call, orders: None, _created)
