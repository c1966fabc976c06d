"""Writing a function so that some of its variables are computed with their axes rearranged."""

from collections.abc import Callable

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Constant, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.layout import Order, Orders, between, first_order
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from .planning import Choose, Plan, arguments_of

# The call that puts the axes of a tensor in an order.
Arrange = Callable[[Expr, Order], Expr]


def rearranged(function: Function, choose: Choose, arrange: Arrange) -> Function:
    """`function` with calls computed as `choose` says, and others in whatever order follows.

    A tensor is rearranged where its order changes, once in each block.
    """
    changed = expand_bindings(function, _Writer(Plan(function, choose), arrange).binding)
    if changed is function:
        return function
    return remove_all_unused(canonical_bindings(changed))


class _Writer:
    """Emits what a plan says, and before it the tensors that it needs in another order."""

    def __init__(self, plan: Plan, arrange: Arrange) -> None:
        self.plan = plan
        self.arrange = arrange
        self.computed: dict[Var, Expr] = {}
        self.copies: dict[tuple[int, Expr, Order], Expr] = {}

    def binding(self, binding: Binding, builder: BlockBuilder) -> Expr | None:
        step = self.plan.steps.get(binding.var)
        if step is None:
            return None
        place, value = self.plan.place[binding.var], binding.value
        given = arguments_of(value)
        args = [
            self.argument(arg, orders, place, builder)
            for arg, orders in zip(given, step.args, strict=True)
        ]
        result = step.rebuild(args)
        if first_order([step.result]) is None:
            return result
        computed = result if isinstance(result, Var) else builder.emit(result, binding.var.name)
        self.computed[binding.var] = computed
        return self.moved(computed, step.result, None)

    def argument(self, arg: Expr, wanted: Orders, place: int, builder: BlockBuilder) -> Expr:
        """An argument in the orders in which a step wants it."""
        have = self.plan.orders_at(arg, place)
        if isinstance(arg, Tuple):
            fields = wanted if isinstance(wanted, list) else [None] * len(arg.fields)
            pairs = zip(arg.fields, fields, strict=True)
            return Tuple(tuple(self.argument(f, w, place, builder) for f, w in pairs))
        if wanted is None or isinstance(wanted, list) or isinstance(arg, Constant):
            source = arg if wanted is None or not isinstance(arg, Var) else self.at_hand(arg, have)
            return source if wanted is None else self.moved(source, have, wanted)
        if have == wanted:
            return self.at_hand(arg, have)
        key = (place, arg, wanted)
        if key not in self.copies:
            copy = self.moved(self.at_hand(arg, have), have, wanted)
            self.copies[key] = builder.emit(copy)
        return self.copies[key]

    def at_hand(self, arg: Expr, have: Orders) -> Expr:
        return self.computed[arg] if have is not None and isinstance(arg, Var) else arg

    def moved(self, expr: Expr, have: Orders, wanted: Orders) -> Expr:
        """`expr`, of which the axes are in one order, with them in another."""
        if isinstance(expr.ty, TupleType):
            count = len(expr.ty.fields)
            before, after = (o if isinstance(o, list) else [None] * count for o in (have, wanted))
            if before == after:
                return expr
            fields = [TupleGetItem(expr, index) for index in range(count)]
            return Tuple(tuple(map(self.moved, fields, before, after)))
        assert not isinstance(have, list)
        assert not isinstance(wanted, list)
        ndim = expr.ty.ndim if isinstance(expr.ty, TensorType) else 0
        order = between(have, wanted, ndim)
        if order is None:
            return expr
        if isinstance(expr, Constant):
            return Constant(np.ascontiguousarray(np.transpose(expr.data, order)))
        return self.arrange(expr, order)
