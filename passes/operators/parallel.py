"""Combining calls that share their data: their weights side by side, one call, and a split."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Call, DataflowVar, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    MatchCast,
    VarBinding,
)
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op, typed
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses, count_uses, values_of
from relaxjax.ir.walk import all_vars, map_blocks, used_vars

from .tails import Stage, stages

# Of a call that may be combined, what it must share with others, the data included; and the axis,
# counted from the back, of its weight and of its result that grow. None for every other call.
Key = Callable[[Call], "tuple[Hashable, int, int] | None"]
# Whether to combine calls on some data, given their weights, the operands of their first common
# operator behind, and what the variables of the block are bound to.
Check = Callable[[Expr, list[Expr], list[Expr], dict[Var, Expr]], bool]


def combined(function: Function, key: Key, least: int, check: Check | None = None) -> Function:
    """`function` with calls of one key combined, wherever a dataflow block has `least` of them.

    One call alone has nothing to be combined with, whatever `least` says.
    Elementwise operators that follow in all branches alike are combined too.
    """
    names = Names([var.name for var in all_vars(function)])
    counts = count_uses(function)

    def change(block: BindingBlock) -> BindingBlock:
        if not isinstance(block, DataflowBlock):
            return block
        return _Block(block, counts, names).combined(key, least, check)

    return map_blocks(function, change)


@dataclass
class _Group:
    """Calls on one datum: those with distinct weights lead, and others share with one of them.

    `bit` stands for it in the numbers that say which groups a variable is computed from.
    """

    weight_axis: int
    axis: int
    bit: int
    members: list[tuple[VarBinding, Call, int]] = field(default_factory=list)
    leaders: dict[Expr, tuple[VarBinding, Call]] = field(default_factory=dict)  # by their weights
    places: dict[Expr, int] = field(default_factory=dict)  # of the leaders, by their weights

    def add(self, binding: VarBinding, call: Call) -> None:
        weight = call.args[1]
        self.leaders.setdefault(weight, (binding, call))
        self.members.append((binding, call, self.places.setdefault(weight, len(self.places))))


class _Block:
    """One dataflow block, and what is combined in it."""

    def __init__(self, block: DataflowBlock, counts: dict[Var, int], names: Names) -> None:
        self.block = block
        self.counts = counts
        self.names = names
        self.known = Uses.of_block(block)
        # Which groups each variable is computed from, and each combined group.
        self.behind: dict[Var, int] = {}
        self.needs: dict[int, int] = {}
        self.before: dict[Var, list[Binding]] = {}
        self.instead: dict[Var, Binding | None] = {}

    def combined(self, key: Key, least: int, check: Check | None) -> DataflowBlock:
        if any(isinstance(binding, MatchCast) for binding in self.block.bindings):
            return self.block  # bindings are moved, and what they define is no variable
        for group in self._groups(key):
            if len(group.leaders) >= max(least, 2) and not self._tangled(group):
                self._combine(group, check)
        if not self.instead:
            return self.block
        bindings: list[Binding] = []
        for binding in self.block.bindings:
            bindings += self.before.get(binding.var, [])
            changed = self.instead.get(binding.var, binding)
            bindings += [] if changed is None else [changed]
        return replace(self.block, bindings=tuple(_in_order(bindings)))

    def _groups(self, key: Key) -> Iterable[_Group]:
        groups: dict[Hashable, _Group] = {}
        for binding in self.block.bindings:
            call = binding.value
            self.behind[binding.var] = self.groups_behind(used_vars(call))
            found = key(call) if isinstance(call, Call) else None
            if found is None or not isinstance(call, Call) or not isinstance(binding, VarBinding):
                continue
            shared, weight_axis, axis = found
            group = groups.setdefault(shared, _Group(weight_axis, axis, 1 << len(groups)))
            if not self.groups_behind(used_vars(call.args[1])) & group.bit:
                group.add(binding, call)
                self.behind[binding.var] |= group.bit
        return groups.values()

    def groups_behind(self, variables: Iterable[Var]) -> int:
        """The groups that something is computed from, also through what was combined."""
        waiting = 0
        for var in variables:
            waiting |= self.behind.get(var, 0)
        found = waiting
        while waiting:
            bit = waiting & -waiting
            more = self.needs.get(bit, 0) & ~found
            found, waiting = found | more, (waiting | more) & ~bit
        return found

    def _tangled(self, group: _Group) -> bool:
        """Whether a member is computed from another one, through what was combined before."""
        weights = (used_vars(weight) for weight in group.leaders)
        return bool(self.groups_behind(var for used in weights for var in used) & group.bit)

    def _combine(self, group: _Group, check: Check | None) -> None:
        leaders = list(group.leaders.values())
        alone = len(leaders) == len(group.members)
        tail = stages([b for b, _ in leaders], group.axis, group.bit, self) if alone else []
        weights = [call.args[1] for _, call in leaders]
        operands = next((stage.operands for stage in tail if stage.operands), [])
        if check is not None:
            values = values_of(self.block.bindings)
            if not check(leaders[0][1].args[0], weights, operands, values):
                return
        inputs = (*weights, *(operand for stage in tail for operand in stage.all_parts))
        self.needs[group.bit] = self.groups_behind(v for item in inputs for v in used_vars(item))
        first = leaders[0][0].var
        out = self._emit_all(first, group, leaders[0][1], weights, tail)
        widths = [_width(call, group.axis) for _, call in leaders]
        cuts = list(accumulate(widths))[:-1]
        ndim = leaders[0][1].ty.ndim if isinstance(leaders[0][1].ty, TensorType) else 0
        pieces = self._emit(first, get_op("relax.split")(out, cuts, group.axis + ndim))
        for binding, _, index in group.members:
            chain = [binding, *(stage.bindings[index] for stage in tail)]
            self.instead |= {item.var: None for item in chain}
            self.instead[chain[-1].var] = replace(chain[-1], value=TupleGetItem(pieces, index))

    def _emit_all(
        self, first: Var, group: _Group, call: Call, weights: Sequence[Expr], tail: Sequence[Stage]
    ) -> Var:
        """The combined call, as one of them is, and the operators that follow in all branches."""
        weight = self._emit(first, _side_by_side(weights, group.weight_axis))
        attrs = call.attrs
        if "out_dtype" in attrs and isinstance(call.ty, TensorType):
            attrs = attrs.updated(out_dtype=call.ty.dtype)
        whole = replace(call, args=(call.args[0], weight), attrs=attrs, ty=None)
        out = self._emit(first, typed(whole))
        for stage in tail:
            args: list[Expr] = []
            for place, operand in enumerate(stage.call.args):
                parts = stage.parts.get(place)
                if place == stage.place:
                    args.append(out)
                elif parts is None:
                    args.append(operand)
                else:
                    args.append(self._emit(first, _side_by_side(parts, group.axis)))
            out = self._emit(first, typed(replace(stage.call, args=tuple(args), ty=None)))
        return out

    def _emit(self, first: Var, value: Expr) -> Var:
        var = DataflowVar(self.names.unique("lv"), value.ty, span=first.span)
        self.before.setdefault(first, []).append(VarBinding(var, value, span=first.span))
        return var


def _side_by_side(parts: Sequence[Expr], axis: int) -> Expr:
    ty = parts[0].ty
    assert isinstance(ty, TensorType)
    return get_op("relax.concat")(Tuple(tuple(parts)), axis + ty.ndim)


def _width(call: Call, axis: int) -> int:
    assert isinstance(call.ty, TensorType)
    assert call.ty.dims is not None
    width = call.ty.dims[axis]
    assert isinstance(width, int)
    return width


def _in_order(bindings: Sequence[Binding]) -> list[Binding]:
    """Bindings with what each needs before it, otherwise in the order in which they are."""
    bound = {binding.var: binding for binding in bindings}
    found: dict[Var, Binding] = {}
    for binding in bindings:
        waiting = [binding]
        while waiting:
            item = waiting[-1]
            needs = (bound[v] for v in used_vars(item.value) if v in bound and v not in found)
            missing = next(needs, None)
            if missing is not None:
                waiting.append(missing)
            else:
                found.setdefault(waiting.pop().var, item)
    return list(found.values())
