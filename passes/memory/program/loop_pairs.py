"""Loops, and the loops that go back through what they have saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tuples import Path
from relaxjax.ir.types import TupleType
from relaxjax.ir.uses import count_uses

# The variable that a part of a tuple is bound to, and which part it is.
Part: TypeAlias = tuple[Var, int]


@dataclass(frozen=True)
class LoopPair:
    """A loop, the loop back, and how what the first stacks comes to the second."""

    forward: Binding
    results: Binding  # what `forward[1]` is bound to: what it gives and what it saves
    stacks: Binding  # and `forward[1][1]`
    back: Binding
    steps: tuple[Binding, Binding]  # the functions of both
    saved_at: int  # the field of what a step back gets that holds what was saved
    x_at: int | None  # and that of what the step itself got; None where that is nothing
    parts: tuple[Part, ...]  # of what is saved, those that others read, too
    read: tuple[Path, ...]  # what others read of what the loop back gives

    @property
    def step(self) -> Function:
        return function_in(self.steps[0])

    @property
    def key(self) -> tuple[Var, int]:
        """What stays the same where other loops are written anew."""
        return self.back.var, self.saved_at

    @property
    def call(self) -> Call:
        """The loop."""
        call = loop_call(self.forward)
        assert call is not None
        return call

    @property
    def saved(self) -> tuple[Expr, ...]:
        """What a step saves: a step is `(carry, x) -> (carry, (y, saved))`."""
        found = self.step.body.body
        for _ in range(2):
            found = (
                found.fields[1] if isinstance(found, Tuple) and len(found.fields) == 2 else found
            )
        return found.fields if isinstance(found, Tuple) else ()


@dataclass(frozen=True)
class _Uses:
    """How often each variable of a function is used, and the parts that are taken of it."""

    times_used: dict[Var, int]
    parts: dict[Var, list[Part]]

    @staticmethod
    def of(function: Function) -> "_Uses":
        parts: dict[Var, list[Part]] = {}
        for binding in function.body.bindings():
            value = binding.value
            if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var):
                parts.setdefault(value.tuple_value, []).append((binding.var, value.index))
        return _Uses(count_uses(function), parts)

    def beside_parts(self, var: Var) -> int:
        """How often it is used otherwise."""
        return self.times_used.get(var, 0) - len(self.parts.get(var, ()))

    def second_is_taken_once(self, var: Var) -> bool:
        """Whether only the parts of a pair are used, and the second by one alone."""
        indices = [index for _, index in self.parts.get(var, ())]
        return indices.count(1) == 1 and self.beside_parts(var) == 0

    def paths(self, var: Var) -> Iterator[Path]:
        """The ways to what is used of it."""
        if self.beside_parts(var):
            yield ()
        for part, index in self.parts.get(var, ()):
            yield from ((index, *path) for path in self.paths(part))


def has_loops(function: Function) -> bool:
    """Whether there are loops that may stack less."""
    return any(loop_call(binding) is not None for binding in function.body.bindings())


def loop_pairs(function: Function) -> Iterator[LoopPair]:
    """The loops that another goes back through, each with it."""
    bound = {binding.var: binding for binding in function.body.bindings()}
    used = _Uses.of(function)
    for back in bound.values():
        call = loop_call(back)
        if call is None or not isinstance(call.args[2], Tuple):
            continue
        for place, field in enumerate(call.args[2].fields):
            way = _way(field, bound)
            if way is None or not all(used.second_is_taken_once(b.var) for b in way[:2]):
                continue
            alone = used.beside_parts(way[2].var) == 1
            pair = _paired(way, back, place, bound, used) if alone else None
            if pair is None or any(used.times_used[binding.var] != 1 for binding in pair.steps):
                continue  # other loops have the same steps
            if pair.saved and all(isinstance(v, Var) for v in pair.saved):
                yield pair


def _paired(
    way: tuple[Binding, Binding, Binding],
    back: Binding,
    place: int,
    bound: dict[Var, Binding],
    used: _Uses,
) -> LoopPair | None:
    there, here = loop_call(way[0]), loop_call(back)
    assert there is not None
    assert here is not None
    assert isinstance(here.args[2], Tuple)
    xs, fields = there.args[2], here.args[2].fields
    at = next((i for i, other in enumerate(fields) if _same(other, xs)), None)
    steps = [bound.get(call.args[0]) for call in (there, here) if isinstance(call.args[0], Var)]
    known = [b for b in steps if b is not None and isinstance(b.value, Function)]
    if len(known) != 2 or (at is None and xs.ty != TupleType(())):
        return None
    parts, read = used.parts.get(way[2].var, ()), used.paths(back.var)
    return LoopPair(*way, back, (known[0], known[1]), place, at, tuple(parts), tuple(read))


def _way(field: Expr, bound: dict[Var, Binding]) -> tuple[Binding, Binding, Binding] | None:
    """The bindings of a loop, of its `[1]` and of its `[1][1]`, if that is what a value is."""
    found: list[Binding] = []
    for _ in range(3):
        binding = bound.get(field) if isinstance(field, Var) else None
        if binding is None:
            return None
        found.append(binding)
        value = binding.value
        field = value.tuple_value if isinstance(value, TupleGetItem) and value.index == 1 else value
    stacks, results, forward = found
    return (forward, results, stacks) if loop_call(forward) is not None else None


def loop_call(binding: Binding) -> Call | None:
    call = binding.value
    is_loop = isinstance(call, Call) and isinstance(call.op, Op) and call.op.facts.get("loop")
    return call if is_loop and isinstance(call, Call) and len(call.args) == 3 else None


def goes(call: Call, back: bool) -> bool:
    """Whether a loop makes each of its steps, the last of them first if it goes `back`."""
    return call.op is get_op("relax.scan") and call.attrs["reverse"] is back


def function_in(binding: Binding) -> Function:
    assert isinstance(binding.value, Function)
    return binding.value


def first_and_second(pair: Expr) -> tuple[Expr, Expr]:
    """The two parts of a pair."""
    if isinstance(pair, Tuple):
        return pair.fields[0], pair.fields[1]
    return TupleGetItem(pair, 0), TupleGetItem(pair, 1)


def _same(one: Expr, other: Expr) -> bool:
    """Whether two leaves are the same variables."""
    if isinstance(one, Tuple) and isinstance(other, Tuple):
        pairs = zip(one.fields, other.fields, strict=False)
        return len(one.fields) == len(other.fields) and all(_same(a, b) for a, b in pairs)
    return one is other
