"""Loops that compute values of their steps again on the way back, rather than stack them all.

A loop that is differentiated stacks what its steps save, and the loop that goes back through them
reads that. What the way back can compute from less is computed there: within another loop, where
no compiler merges it with the first.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.registry import get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ir.walk import all_vars, post_order, substitute, uses
from relaxjax.ops.loop_types import steps_of
from relaxjax.passes.differentiation.parts import in_terms_of
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings

from .carried import Carried, carries_that_follow, emit_carried
from .cuts import cheapest_cut
from .program import Program, Step, read_step, size_of

Again = Callable[[Step], bool]


def with_lean_loops(mod: IRModule, name: str, again: Again, most: float) -> IRModule:
    """The module whose function `name` has loops that stack as little as they can.

    Only steps that `again` allows are computed again, and of a loop at most `most` flops together.
    """
    function = mod[name]
    assert isinstance(function, Function)
    seen: set[tuple[Var, int]] = set()
    while pair := next((p for p in _pairs(function) if p.key not in seen), None):
        seen.add(pair.key)
        lean = _leanest(pair, mod, name, again, most)
        if lean.saves and lean.extra <= most:
            function = lean.written(function)
    if function is mod[name]:
        return mod
    changed = mod.with_function(name, remove_all_unused(function))
    return mod.with_function(name, CanonicalizeBindings()(changed)[name])


@dataclass(frozen=True)
class _Pair:
    """A loop, the loop back, and how what the first stacks comes to the second."""

    forward: Binding
    results: Binding  # what `forward[1]` is bound to: what it gives and what it saves
    stacks: Binding  # and `forward[1][1]`
    back: Binding
    steps: tuple[Binding, Binding]  # the functions of both
    saved_at: int  # the field of what a step back gets that holds what was saved
    x_at: int | None  # and that of what the step itself got; None where that is nothing

    @property
    def step(self) -> Function:
        return _function(self.steps[0])

    @property
    def key(self) -> tuple[Var, int]:
        """What stays the same where other loops are written anew."""
        return self.back.var, self.saved_at

    @property
    def call(self) -> Call:
        """The loop."""
        call = _loop(self.forward)
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


def _pairs(function: Function) -> Iterator[_Pair]:
    """The loops that another goes back through, and nobody else sees what they save."""
    bound = {binding.var: binding for binding in function.body.bindings()}
    used, parts = uses(function), _parts(function)
    for back in list(bound.values()):
        call = _loop(back)
        if call is None or not isinstance(call.args[2], Tuple):
            continue
        for place, field in enumerate(call.args[2].fields):
            way = _way(field, bound)
            if (
                way is None
                or used[way[2].var] != 1
                or not all(
                    parts.get((b.var, 1)) == 1
                    and used[b.var] == sum(parts.get((b.var, i), 0) for i in (0, 1))
                    for b in way[:2]
                )
            ):
                continue
            pair = _paired(way, back, place, bound)
            if pair is None or any(used[binding.var] != 1 for binding in pair.steps):
                continue  # other loops have the same steps
            if pair.saved and all(isinstance(v, Var) for v in pair.saved):
                yield pair


def _paired(
    way: tuple[Binding, Binding, Binding], back: Binding, place: int, bound: dict[Var, Binding]
) -> _Pair | None:
    there, here = _loop(way[0]), _loop(back)
    assert there is not None
    assert here is not None
    assert isinstance(here.args[2], Tuple)
    xs, fields = there.args[2], here.args[2].fields
    at = next((i for i, other in enumerate(fields) if _same(other, xs)), None)
    steps = [bound.get(call.args[0]) for call in (there, here) if isinstance(call.args[0], Var)]
    known = [b for b in steps if b is not None and isinstance(b.value, Function)]
    if len(known) != 2 or (at is None and xs.ty != TupleType(())):
        return None
    return _Pair(*way, back, (known[0], known[1]), place, at)


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
    return (forward, results, stacks) if _loop(forward) is not None else None


def _loop(binding: Binding) -> Call | None:
    call = binding.value
    is_loop = isinstance(call, Call) and isinstance(call.op, Op) and call.op.facts.get("loop")
    return call if is_loop and isinstance(call, Call) and len(call.args) == 3 else None


def _goes(call: Call, back: bool) -> bool:
    """Whether a loop makes each of its steps, the last of them first if it goes `back`."""
    return call.op is get_op("relax.scan") and call.attrs["reverse"] is back


def _function(binding: Binding) -> Function:
    assert isinstance(binding.value, Function)
    return binding.value


def _parts(function: Function) -> dict[tuple[Expr, int], int]:
    """How often each part of each variable is taken."""
    found: dict[tuple[Expr, int], int] = {}
    for item in post_order(function):
        if isinstance(item, TupleGetItem) and isinstance(item.tuple_value, Var):
            key = (item.tuple_value, item.index)
            found[key] = found.get(key, 0) + 1
    return found


def _same(one: Expr, other: Expr) -> bool:
    """Whether two leaves are the same variables."""
    if isinstance(one, Tuple) and isinstance(other, Tuple):
        pairs = zip(one.fields, other.fields, strict=False)
        return len(one.fields) == len(other.fields) and all(_same(a, b) for a, b in pairs)
    return one is other


def _leanest(pair: _Pair, mod: IRModule, name: str, again: Again, most: float) -> "_Lean":
    """The loops that save least, or as little as `most` flops that are computed again allow.

    What takes most flops a byte is then not computed again.
    """
    least = _Lean(pair, mod, name, again)
    dearest = sorted(least.again, key=lambda step: -step.flops / max(step.size, 1))

    def sparing(count: int) -> _Lean:
        spared = {step.var for step in dearest[:count]}
        return _Lean(pair, mod, name, lambda step: step.var not in spared and again(step))

    if least.extra <= most:
        return least
    return sparing(bisect_left(range(len(dearest)), True, key=lambda n: sparing(n).extra <= most))


class _Lean:
    """What the steps of a loop had better save, and the loops that do so."""

    def __init__(self, pair: _Pair, mod: IRModule, name: str, again: Again) -> None:
        self.pair = pair
        self.saved = [var for var in pair.saved if isinstance(var, Var)]
        self.program = _program(pair.step, self.saved, mod, name)
        carry = pair.step.params[0]
        # Nothing gives the carry back; a part of it is saved by itself, if at all.
        own = {carry, *(s.var for s in self.program.forward if s.op is None and carry in s.inputs)}

        def can_be_again(step: Step) -> bool:
            is_allowed = step.is_view if step.op is None else again(step)
            return step.var not in own and isinstance(step.binding, VarBinding) and is_allowed

        whole: list[tuple[list[Var], Sequence[Carried]]] = []
        for some in (cheapest_cut(self.program, can_be_again), frozenset(self.saved)):
            kept = [step.var for step in self.program.forward if step.var in some]
            carried = self._carried(kept, can_be_again)
            follow = {one.var for one in carried}
            whole.append(([var for var in kept if var not in follow], carried))
        self.kept, self.carried = min(whole, key=lambda one: sum(map(size_of, one[0])))
        self.again = self._between({*self.kept, *(one.var for one in self.carried)})

    @property
    def saves(self) -> bool:
        return sum(map(size_of, self.kept)) < sum(map(size_of, self.saved))

    @property
    def extra(self) -> int:
        """The flops of all that is computed again."""
        steps = [*self.again, *(step for one in self.carried for step in one.again)]
        flops = sum(step.flops for step in steps)
        return flops * self.count if self.count is not None else sys.maxsize

    @property
    def count(self) -> int | None:
        """How many steps the loop has."""
        call = self.pair.call
        assert call.args[2].ty is not None
        count = steps_of(call.args[2].ty, call.attrs["length"])
        return count if isinstance(count, int) else None

    def _carried(self, kept: Sequence[Var], again: Again) -> list[Carried]:
        """What of the carry the way back need not be told."""
        there, back = self.pair.call, self.pair.back.value
        assert isinstance(back, Call)
        if self.count is None or not _goes(there, False) or not _goes(back, True):
            return []
        return carries_that_follow(self.program, kept, there.args[1], again)

    def _between(self, cut: Collection[Var]) -> list[Step]:
        """The steps that lead from what is kept to what was saved, in order."""
        needed = set(self.saved) - set(cut)
        for step in reversed(self.program.forward):
            if step.var in needed:
                needed |= set(step.inputs) - set(cut)
        return [step for step in self.program.forward if step.var in needed]

    def written(self, function: Function) -> Function:
        """The function with the two loops replaced, and all that lies between them."""
        pair = self.pair
        new: dict[Var, Expr] = {}
        changed = {b.var: b for b in (*pair.steps, pair.forward, pair.results, pair.stacks)}
        values: dict[Var, Expr] = {pair.steps[0].var: self.step()}
        step_back = pair.steps[1].var
        builder = BlockBuilder()
        with builder.scope(taken=[param.name for param in function.params]):
            for binding in function.body.bindings():
                if binding.var is step_back:
                    continue
                if binding.var is pair.back.var:
                    stacks = {
                        v: TupleGetItem(new[pair.stacks.var], i) for i, v in enumerate(self.kept)
                    }
                    new[step_back] = builder.emit(self.step_back(stacks), step_back.name)
                    values[binding.var] = self.loop_back(builder)
                value = substitute(values.get(binding.var, binding.value), new)
                if binding.var in changed:
                    new[binding.var] = builder.emit(_untyped(value), binding.var.name)
                else:
                    builder.emit_binding(replace(binding, value=value))
            body = builder.sequence(substitute(function.body.body, new))
        return replace(function, body=body)

    def step(self) -> Function:
        """The step that saves what is kept."""
        step = self.pair.step
        carry, rest = _fields(step.body.body)
        y, _ = _fields(rest)
        builder = BlockBuilder()
        with builder.scope(taken=[param.name for param in step.params]):
            for binding in step.body.bindings():
                builder.emit_binding(binding)
            body = builder.sequence((carry, Tuple((y, Tuple(tuple(self.kept))))))
        return renew(make_function(step.params, body, ret_ty=body.ty))[0]

    def loop_back(self, builder: BlockBuilder) -> Expr:
        """The loop of the steps back, which are told their numbers where they need them."""
        call = self.pair.back.value
        assert isinstance(call, Call)
        if not self.carried:
            return call
        first, start, xs = call.args
        assert isinstance(xs, Tuple)
        iota = get_op("lax.iota")(dtype="int32", shape=[self.count], dimension=0)
        numbers = builder.emit(iota, "numbers")
        return replace(call, args=(first, start, Tuple((*xs.fields, numbers))))

    def step_back(self, stacks: Mapping[Var, Expr]) -> Function:
        """The step back, which computes what was saved from what is kept, in `stacks`."""
        pair, back = self.pair, _function(self.pair.steps[1])
        adjoints, at_step = back.params
        assert isinstance(at_step.ty, TupleType)
        fields = list(at_step.ty.fields)
        kept_type = Tuple(tuple(self.kept)).ty
        assert kept_type is not None
        fields[pair.saved_at] = kept_type
        number = TensorType((), "int32")
        given = Var(at_step.name, TupleType((*fields, number) if self.carried else tuple(fields)))
        builder = BlockBuilder()
        with builder.scope(taken=[var.name for var in (*back.params, *all_vars(back))]):
            names: dict[Var, Expr] = {}
            if pair.x_at is not None:
                names[pair.step.params[1]] = builder.emit(TupleGetItem(given, pair.x_at))
            kept = builder.emit(TupleGetItem(given, pair.saved_at))
            for place, var in enumerate(self.kept):
                names[var] = builder.emit(TupleGetItem(kept, place), var.name)
            if self.carried:
                own = builder.emit(TupleGetItem(given, len(fields)), "number")
                names.update(emit_carried(builder, self.carried, stacks, own))
            for step in self.again:
                value = substitute(step.binding.value, names)
                names[step.var] = builder.emit(_untyped(value), f"{step.var.name}_again")
            whole: list[Expr] = [TupleGetItem(given, place) for place in range(len(fields))]
            whole[pair.saved_at] = Tuple(tuple(names[var] for var in self.saved))
            rest = in_terms_of(back.body, {at_step: Tuple(tuple(whole))})
            for binding in rest.bindings():
                builder.emit_binding(binding)
            body = builder.sequence(rest.body)
        return renew(make_function((adjoints, given), body, ret_ty=body.ty))[0]


def _program(step: Function, saved: Sequence[Var], mod: IRModule, name: str) -> Program:
    """A step as a program: its carry, its bindings, and something that needs all that it saves.

    What it gets of the stacks beside the carry is at hand on the way back as well.
    """
    carry = step.params[0]
    first = read_step(VarBinding(carry, Tuple(())), mod, name)
    bindings = [read_step(binding, mod, name) for binding in step.body.bindings()]
    needs = Var("needs", TupleType(()))
    last = read_step(VarBinding(needs, Tuple(tuple(saved))), mod, name)
    return Program(step, (first, *bindings, last), len(bindings) + 1)


def _fields(pair: Expr) -> tuple[Expr, Expr]:
    """The two parts of a pair that is written as one."""
    if isinstance(pair, Tuple) and len(pair.fields) == 2:
        return pair.fields[0], pair.fields[1]
    return pair, pair


def _untyped(value: Expr) -> Expr:
    """A value whose type is to be inferred again, because that of what it uses may be another."""
    return value if isinstance(value, Function | Var) else replace(value, ty=None)
