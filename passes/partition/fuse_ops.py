"""Fusing operators into functions by what each of them says about itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from relaxjax.ir.expr import Call, Var
from relaxjax.ir.function import Binding, BindingBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.reached import reached
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import nested_blocks, used_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.context import PassContext

from .classes import Classes
from .grouping import Group, group_name, may_be_grouped, outlined

# From what computes each element of its own to what nothing is known of.
ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, CONTRACTION, OPAQUE = range(6)
_KINDS = {
    "elementwise": ELEMENTWISE,
    "broadcast": BROADCAST,
    "injective": INJECTIVE,
    "reduction": REDUCTION,
    "out_fusable": CONTRACTION,
}


@pass_factory(opt_level=1)
def FuseOps(mod: IRModule, fuse_opt_level: int = -1) -> IRModule:
    """Group operators that read what the one before writes into private functions, fused by XLA.

    What an operator may be grouped with, its `fusion` class says. A value is grouped with the place
    where all that is computed from it comes together, and with what lies between: elementwise and
    broadcasting operators with such ones behind them, with injective ones and at most one
    reduction; a matmul or convolution with elementwise ones behind it. A group compiles as one
    region of its name.

    Args:
        fuse_opt_level: 0 fuses nothing, 1 only elementwise and broadcasting operators, 2 all that
            is said above; -1 stands for the opt level of the context.
    """
    level = PassContext.current().opt_level if fuse_opt_level < 0 else fuse_opt_level
    return outlined(mod, lambda function: _groups(function, level)) if level > 0 else mod


def _groups(function: Function, level: int) -> list[Group]:
    totals = count_uses(function)
    return [
        Group(tuple(bindings), group_name(bindings), {"Primitive": True})
        for block in nested_blocks(function)
        for bindings in _Fusion(block, totals, level).groups()
        if len(bindings) > 1
    ]


class _Fusion:
    """The operators of one block: their kinds, who uses them, and the groups that they form."""

    def __init__(self, block: BindingBlock, totals: Mapping[Var, int], level: int) -> None:
        self.bindings = block.bindings
        place = {binding.var: index for index, binding in enumerate(block.bindings)}
        self.kinds = [_kind(binding, level) for binding in block.bindings]
        self.users: list[list[int]] = [[] for _ in block.bindings]
        counts = [0] * len(block.bindings)
        for index, binding in enumerate(block.bindings):
            used = count_uses(binding.value)
            for var in used_vars(binding.value):
                if var in place:
                    self.users[place[var]].append(index)
                    counts[place[var]] += used[var]
        escapes = [totals.get(b.var, 0) > n for b, n in zip(block.bindings, counts, strict=True)]
        self.meeting = self._meeting_points(escapes)
        self.classes = Classes[int]()

    def groups(self) -> Iterator[list[Binding]]:
        for phase in (self._join_elementwise, self._join_injective):
            for index in range(len(self.bindings)):
                phase(index)
        members: dict[int, list[Binding]] = {}
        for index, binding in enumerate(self.bindings):
            members.setdefault(self.classes.leader(index), []).append(binding)
        yield from members.values()

    def _join_elementwise(self, index: int) -> None:
        kind = self._kind(index)
        if kind == CONTRACTION:
            self._join(index, lambda kind, last: kind <= BROADCAST)
        elif kind <= BROADCAST:
            self._join(index, lambda kind, last: kind <= (REDUCTION if last else INJECTIVE))

    def _join_injective(self, index: int) -> None:
        if self._kind(index) == INJECTIVE:
            self._join(index, lambda kind, last: kind <= INJECTIVE)

    def _join(self, index: int, allowed: Callable[[int, bool], bool]) -> None:
        """Join a value with its meeting point, and all that lies between, if their kinds allow."""
        end, leader = self.meeting[index], self.classes.leader
        # Of what is joined already, all that lies between is, too.
        if end is None or leader(index) == leader(end):
            return
        way = self._between(index, end)
        if all(allowed(self._kind(item), item == end) for item in way):
            kind = max(self._kind(item) for item in (index, *way))
            for item in (index, *way):
                self.classes.join(end, item)
            self.kinds[leader(end)] = kind

    def _between(self, index: int, end: int) -> list[int]:
        """All places on a way from one value to the point where its ways meet, that one too."""
        return sorted(reached(self.users[index], lambda i: self.users[i] if i != end else []))

    def _meeting_points(self, escapes: Sequence[bool]) -> list[int | None]:
        """Of each value the first place that all uses of it lead through, None if there is none."""
        meeting: list[int | None] = [None] * len(self.bindings)
        for index in reversed(range(len(self.bindings))):
            if escapes[index] or not self.users[index]:
                continue
            point: int | None = self.users[index][0]
            for other in self.users[index][1:]:
                point = _common(point, other, meeting)
            meeting[index] = point
        return meeting

    def _kind(self, index: int) -> int:
        """The kind of the group that a place belongs to: that of the hardest operator in it."""
        return self.kinds[self.classes.leader(index)]


def _common(one: int | None, other: int | None, meeting: Sequence[int | None]) -> int | None:
    """The first place that both of two places lead through."""
    while one != other:
        if one is None or other is None:
            return None
        if one < other:
            one = meeting[one]
        else:
            other = meeting[other]
    return one


def _kind(binding: Binding, level: int) -> int:
    if not may_be_grouped(binding):
        return OPAQUE
    assert isinstance(binding.value, Call)
    assert isinstance(binding.value.op, Op)
    kind = _KINDS.get(binding.value.op.fusion or "", OPAQUE)
    return kind if level > 1 or kind <= BROADCAST else OPAQUE
