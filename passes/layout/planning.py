"""Which variables of a function are computed with their axes in another order, and how."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from relaxjax.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, MatchCast
from relaxjax.ir.layout import LayoutRule, Order, Orders, Relayout, first_order
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses, count_uses, values_of
from relaxjax.ir.walk import nested_blocks

# What says of some calls how they are to be computed; None leaves a call to its operator's rule.
Choose = Callable[[Call], Relayout | None]

# How many elements are moved to have values in some orders.
Costs: TypeAlias = dict[tuple[Expr, Order], int]

# What a symbolic dimension counts for where sizes are compared.
_SOME = 64


class Plan:
    """The steps by which some variables are computed in another order.

    Each block is planned by itself: what another block sees of a variable is in the program's own
    order. `place` is the number of the block that a variable is bound in.
    """

    def __init__(self, function: Function, choose: Choose) -> None:
        self.choose = choose
        self.steps: dict[Var, Relayout] = {}
        self.place: dict[Var, int] = {}
        total = count_uses(function)
        blocks = list(nested_blocks(function))
        for number, block in enumerate(blocks):
            self.place |= {binding.var: number for binding in block.bindings}
            inner = _Inner(block, total)
            self._follow(block, number)
            while self._produce(inner, number):
                self._follow(block, number)

    def orders_at(self, expr: Expr, block: int) -> Orders:
        """The orders in which an argument is at hand inside a block."""
        if isinstance(expr, Tuple):
            orders = [self.orders_at(field, block) for field in expr.fields]
            return None if first_order(orders) is None else orders
        own = isinstance(expr, Var) and self.place.get(expr) == block and expr in self.steps
        return self.steps[expr].result if own and isinstance(expr, Var) else None

    def _follow(self, block: BindingBlock, number: int) -> None:
        """Forward: what is chosen, and what follows from it."""
        for binding in block.bindings:
            if binding.var in self.steps or isinstance(binding, MatchCast):
                continue
            step = self._step(binding.value, number)
            if step is not None and first_order([*step.args, step.result]) is not None:
                self.steps[binding.var] = step

    def _step(self, value: Expr, block: int) -> Relayout | None:
        orders = tuple(self.orders_at(arg, block) for arg in arguments_of(value))
        match value:
            case Call(op=Op(layout=LayoutRule() as rule)) as call:
                if any(isinstance(a.ty, TensorType) and a.ty.ndim < 0 for a in call.args):
                    return None
                chosen = self.choose(call)
                if chosen is not None or first_order(orders) is None:
                    return chosen
                return rule.follow(call, orders)
            case TupleGetItem(index=index):
                field = orders[0][index] if isinstance(orders[0], list) else None
                return Relayout(orders, field, lambda new: TupleGetItem(new[0], index))
            case Tuple():
                return Relayout(orders, list(orders), lambda new: Tuple(tuple(new)))
            case Var():
                return Relayout(orders, orders[0], lambda new: new[0])
            case _:
                return None

    def _produce(self, block: "_Inner", number: int) -> bool:
        """Backward: what is wanted in one other order, and costs less to compute so."""
        found = False
        costs: Costs = {}  # what is decided here, is of what comes after
        for binding in reversed(block.bindings):
            if binding.var in self.steps or binding.var in block.seen_outside:
                continue
            orders, idle = self._wanted(binding.var, block.readers(binding.var))
            step = _produced(binding.value, *orders) if len(orders) == 1 else None
            if step is None:
                continue
            if self._cost(step, binding.value, block.values, costs) >= size(binding.var):
                continue
            self.steps[binding.var] = step
            if all(self._step(reader.value, number) is not None for reader in idle):
                found = True
            else:
                del self.steps[binding.var]
        return found

    def _wanted(self, var: Var, readers: list[Binding]) -> tuple[set[Order], list[Binding]]:
        """The orders in which steps read a variable, and the other bindings that read it."""
        orders: set[Order] = set()
        idle: list[Binding] = []
        for reader in readers:
            step = self.steps.get(reader.var)
            parts = arguments_of(reader.value)
            reads = zip(parts, step.args, strict=True) if step is not None else ()
            given = [order for arg, orders in reads for v, order in _reads(arg, orders) if v is var]
            orders.update(order for order in given if order is not None)
            if not given or None in given:
                idle.append(reader)
        return orders, idle

    def _cost(self, step: Relayout, value: Expr, values: Mapping[Var, Expr], costs: Costs) -> int:
        """How many elements are moved to bring the arguments of a step into their orders.

        Each may be computed in its order too, from arguments in other ones, and so on: `costs` are
        those of variables in orders that are known.
        """
        waiting = _ordered(value, step)
        while waiting:
            arg, order = waiting[-1]
            made = self._made(arg, order, values)
            needed = _ordered(values[arg], made) if made and isinstance(arg, Var) else []
            missing = [one for one in needed if one not in costs]
            if missing and (arg, order) not in costs:
                waiting += missing
                continue
            waiting.pop()
            costs[arg, order] = self._cost_of(arg, order, values, made, costs)
        return sum(costs[one] for one in _ordered(value, step))

    def _made(self, arg: Expr, order: Order, values: Mapping[Var, Expr]) -> Relayout | None:
        """How an argument that no step computes yet is computed in an order."""
        if not isinstance(arg, Var) or arg not in values or arg in self.steps:
            return None
        return _produced(values[arg], order)

    def _cost_of(
        self,
        arg: Expr,
        order: Order,
        values: Mapping[Var, Expr],
        made: Relayout | None,
        costs: Costs,
    ) -> int:
        if not isinstance(arg, Var) or arg not in values:
            return 0 if isinstance(arg, Constant) else size(arg)
        if arg in self.steps:
            return 0 if self.steps[arg].result == order else size(arg)
        if made is None:
            return size(arg)
        return min(size(arg), sum(costs[one] for one in _ordered(values[arg], made)))


class _Inner:
    """What the bindings of a block are to one another."""

    def __init__(self, block: BindingBlock, total: Mapping[Var, int]) -> None:
        self.bindings = block.bindings
        self.values = values_of(block.bindings)
        self.known = Uses.of_block(block)
        self.seen_outside = {
            var for var in self.values if total.get(var, 0) > self.known.count(var)
        }

    def readers(self, var: Var) -> list[Binding]:
        return [self.known.bindings[reader] for reader in self.known.users_of(var)]


def size(expr: Expr) -> int:
    """The number of elements of a tensor; a symbolic dimension counts for some."""
    count = 1
    for dim in (isinstance(expr.ty, TensorType) and expr.ty.dims) or ():
        count *= dim if isinstance(dim, int) else _SOME
    return count


def _ordered(value: Expr, step: Relayout) -> list[tuple[Expr, Order]]:
    """The arguments of a value that a step takes in an order, each with that."""
    pairs = zip(arguments_of(value), step.args, strict=True)
    return [(arg, order) for arg, order in pairs if isinstance(order, tuple)]


def _produced(value: Expr, order: Order) -> Relayout | None:
    """How a value is computed in a given order, as far as its operator can tell."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return None
    rule = value.op.layout
    if not isinstance(rule, LayoutRule) or rule.produce is None:
        return None
    return rule.produce(value, order)


def arguments_of(value: Expr) -> tuple[Expr, ...]:
    """What a value is computed from, one for each of the orders of its step."""
    match value:
        case Call(args=args):
            return args
        case TupleGetItem(tuple_value=inner):
            return (inner,)
        case Tuple(fields=fields):
            return fields
        case _:
            return (value,)


def _reads(arg: Expr, orders: Orders) -> Iterator[tuple[Var, Order | None]]:
    if isinstance(arg, Tuple):
        fields = orders if isinstance(orders, list) else [None] * len(arg.fields)
        for field, order in zip(arg.fields, fields, strict=True):
            yield from _reads(field, order)
    elif isinstance(arg, Var):
        yield arg, orders if isinstance(orders, tuple) else None
