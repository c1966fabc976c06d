"""Loops that compute values of their steps again on the way back, rather than stack them all.

A loop that is differentiated stacks what its steps save, and the loop that goes back through them
reads that. What the way back can compute from less is computed there: within another loop, where
no compiler merges it with the first.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.tuples import Path
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ir.uses import values_of_kind
from relaxjax.ir.walk import all_vars, substitute
from relaxjax.ops.loop_types import known_steps_of
from relaxjax.passes.differentiation.vjp import in_terms_of
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings

from ..program.cuts import cheapest_cut
from ..program.loop_pairs import LoopPair, first_and_second, function_in, goes, loop_pairs
from ..program.program import Program
from ..program.step import Step, read_step, size_of
from .carries import Carried, carries_that_follow, emit_carried
from .overwriting import Overwriting, replaced

Again = Callable[[Step], bool]


def with_lean_loops(
    mod: IRModule, name: str, again: Again, most: float, rows_alone: bool = False
) -> IRModule:
    """The module whose function `name` has loops that stack as little as they can.

    Only steps that `again` allows are computed again, and of a loop at most `most` flops together.
    With `rows_alone`, steps back take nothing of a stack but their own row, and write over none.
    """
    function: Function = mod[name]
    seen: set[tuple[Var, int]] = set()
    while pairs := _apart(pair for pair in loop_pairs(function) if pair.key not in seen):
        seen.update(pair.key for pair in pairs)
        leanest = (_leanest(pair, mod, name, again, most, rows_alone) for pair in pairs)
        leans = [lean for lean in leanest if lean.saves and lean.extra <= most]
        if leans:
            function = _written(function, leans)
    if function is mod[name]:
        return mod
    changed = mod.with_function(name, remove_all_unused(function))
    return mod.with_function(name, CanonicalizeBindings()(changed)[name])


def _apart(pairs: Iterable[LoopPair]) -> list[LoopPair]:
    """Those of some pairs that have no loop in common: they are written anew at once."""
    found: list[LoopPair] = []
    taken: set[Var] = set()
    for pair in pairs:
        loops = {pair.forward.var, pair.back.var}
        if taken.isdisjoint(loops):
            found.append(pair)
            taken |= loops
    return found


def _leanest(
    pair: LoopPair, mod: IRModule, name: str, again: Again, most: float, rows_alone: bool
) -> "_Lean":
    """The loops that save least, or as little as `most` flops that are computed again allow.

    What takes most flops a byte is then not computed again.
    """
    least = _Lean(pair, mod, name, again, rows_alone)
    dearest = sorted(least.again, key=lambda step: -step.flops / max(step.size, 1))

    def sparing(count: int) -> _Lean:
        spared = {step.var for step in dearest[:count]}

        def allowed(step: Step) -> bool:
            return step.var not in spared and again(step)

        return _Lean(pair, mod, name, allowed, rows_alone)

    if least.extra <= most:
        return least
    return sparing(bisect_left(range(len(dearest)), True, key=lambda n: sparing(n).extra <= most))


@dataclass(frozen=True)
class _Stacked:
    """What a loop stacks: what is kept, without the carries that follow from it.

    What the way back gives is written `over` some of it, known by its place.
    """

    kept: Sequence[Var]
    carried: Sequence[Carried]
    over: Mapping[Path, int]

    def size(self) -> int:
        """The bytes of a step."""
        taken = set(self.over.values())
        return sum(size_of(var) for place, var in enumerate(self.kept) if place not in taken)


class _Lean:
    """What the steps of a loop had better save, and the loops that do so."""

    def __init__(
        self, pair: LoopPair, mod: IRModule, name: str, again: Again, rows_alone: bool
    ) -> None:
        self.pair = pair
        self.rows_alone = rows_alone
        self.saved = [var for var in pair.saved if isinstance(var, Var)]
        self.program = _program(pair.step, self.saved, mod, name)
        self.outside = {self.saved[index] for _, index in pair.parts}
        carry = pair.step.params[0]
        # Nothing gives the carry back; a part of it is saved by itself, if at all.
        own = {carry, *(s.var for s in self.program.forward if s.op is None and carry in s.inputs)}
        never = own | self.outside | self.program.decisions

        def can_be_again(step: Step) -> bool:
            is_plain = step.is_view or step.is_closure
            is_allowed = is_plain if step.op is None else again(step)
            is_pure = isinstance(step.binding, VarBinding)
            return is_pure and is_allowed and step.var not in never

        cuts = (cheapest_cut(self.program, can_be_again), frozenset(self.saved))
        self.stacked = min((self._stacked(cut, can_be_again) for cut in cuts), key=_Stacked.size)
        self.again = self._between({*self.kept, *(one.var for one in self.carried)})

    @property
    def kept(self) -> Sequence[Var]:
        return self.stacked.kept

    @property
    def carried(self) -> Sequence[Carried]:
        return self.stacked.carried

    @property
    def saves(self) -> bool:
        return self.stacked.size() < sum(map(size_of, self.saved))

    @property
    def extra(self) -> int:
        """The flops of all that is computed again."""
        steps = [*self.again, *(step for one in self.carried for step in one.again)]
        flops = sum(step.flops for step in steps)
        return flops * self.count if self.count is not None else sys.maxsize

    @property
    def count(self) -> int | None:
        """How many steps the loop has."""
        return known_steps_of(self.pair.call)

    def _stacked(self, cut: Collection[Var], again: Again) -> "_Stacked":
        """What is stacked where the values of a cut are kept."""
        kept = [step.var for step in self.program.forward if step.var in cut]
        there, back = self.pair.call, self.pair.back.value
        assert isinstance(back, Call)
        if self.rows_alone or not self.count or not goes(back, True):
            return _Stacked(kept, (), {})
        carried: list[Carried] = []
        if goes(there, False):
            found = carries_that_follow(self.program, kept, there.args[1], again)
            carried = [one for one in found if one.var not in self.outside]
        kept = [var for var in kept if all(one.var is not var for one in carried)]
        needed = self.outside.union(*(one.reads for one in carried))
        free = {place: var.ty for place, var in enumerate(kept) if var not in needed}
        step = function_in(self.pair.steps[1])
        return _Stacked(kept, carried, replaced(step, free, self.pair.read))

    def _between(self, cut: Collection[Var]) -> list[Step]:
        """The steps that lead from what is kept to what was saved, in order."""
        needed = set(self.saved) - set(cut)
        for step in reversed(self.program.forward):
            if step.var in needed:
                needed |= set(step.inputs) - set(cut)
        return [step for step in self.program.forward if step.var in needed]

    def step(self) -> Function:
        """The step that saves what is kept."""
        step = self.pair.step
        carry, rest = first_and_second(step.body.body)
        y, _ = first_and_second(rest)
        builder = BlockBuilder()
        with builder.scope(taken=[param.name for param in step.params]):
            emit_sequence(builder, step.body)
            body = builder.sequence((carry, Tuple((y, Tuple(tuple(self.kept))))))
        return renew(make_function(step.params, body, ret_ty=body.ty))[0]

    def loop_back(self, builder: BlockBuilder, new: Mapping[Var, Expr]) -> Expr:
        """The loop of the steps back, which are told their numbers where they need them."""
        pair, call = self.pair, substitute(self.pair.back.value, new)
        assert isinstance(call, Call)
        name, start, xs = call.args
        assert isinstance(xs, Tuple)
        stacks = new[pair.stacks.var]
        if self.carried:
            iota = get_op("lax.iota")(dtype="int32", shape=[self.count], dimension=0)
            xs = Tuple((*xs.fields, builder.emit(iota, "numbers")))
        step = self.step_back(stacks)
        if self.stacked.over:
            assert self.count is not None
            over = Overwriting(step, pair.saved_at, self.count, self.stacked.over)
            return over.loop(builder, replace(call, args=(name, start, xs)), stacks)
        step_back = builder.emit(step, pair.steps[1].var.name)
        return replace(call, args=(step_back, start, xs))

    def step_back(self, stacks: Expr) -> Function:
        """The step back, which computes what was saved from what is kept, in `stacks`."""
        pair, back = self.pair, function_in(self.pair.steps[1])
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
                whole = {var: TupleGetItem(stacks, i) for i, var in enumerate(self.kept)}
                names.update(emit_carried(builder, self.carried, whole, own))
            for step in self.again:
                value = substitute(step.binding.value, names)
                names[step.var] = builder.emit(_untyped(value), f"{step.var.name}_again")
            old: list[Expr] = [TupleGetItem(given, place) for place in range(len(fields))]
            old[pair.saved_at] = Tuple(tuple(names[var] for var in self.saved))
            rest = in_terms_of(back.body, {at_step: Tuple(tuple(old))})
            body = builder.sequence(emit_sequence(builder, rest))
        return renew(make_function((adjoints, given), body, ret_ty=body.ty))[0]


def _written(function: Function, leans: Sequence[_Lean]) -> Function:
    """The function with pairs of loops replaced, and all that lies between the two of each."""
    new: dict[Var, Expr] = {}
    values: dict[Var, Expr] = {}
    changed: set[Var] = set()
    for pair, lean in ((lean.pair, lean) for lean in leans):
        changed.update(b.var for b in (*pair.steps, pair.forward, pair.results, pair.stacks))
        values[pair.steps[0].var] = lean.step()
        for var, index in pair.parts:
            values[var] = TupleGetItem(pair.stacks.var, lean.kept.index(lean.saved[index]))
    steps_back = {lean.pair.steps[1].var for lean in leans}
    backs = {lean.pair.back.var: lean for lean in leans}
    builder = BlockBuilder()
    with builder.scope(taken=[param.name for param in function.params]):
        for binding in function.body.bindings():
            if binding.var in steps_back:
                continue
            if binding.var in backs:
                values[binding.var] = backs[binding.var].loop_back(builder, new)
            value = substitute(values.get(binding.var, binding.value), new)
            if binding.var in changed:
                new[binding.var] = builder.emit(_untyped(value), binding.var.name)
            else:
                builder.emit_binding(replace(binding, value=value))
        body = builder.sequence(substitute(function.body.body, new))
    return replace(function, body=body)


def _program(step: Function, saved: Sequence[Var], mod: IRModule, name: str) -> Program:
    """A step as a program: its carry, its bindings, and something that needs all that it saves.

    What it gets of the stacks beside the carry is at hand on the way back as well.
    """
    carry = step.params[0]
    first = read_step(VarBinding(carry, Tuple(())), mod, name)
    closures = values_of_kind(step.body.bindings(), Function)
    bindings = [read_step(binding, mod, name, closures) for binding in step.body.bindings()]
    needs = Var("needs", TupleType(()))
    last = read_step(VarBinding(needs, Tuple(tuple(saved))), mod, name)
    return Program(step, (first, *bindings, last), len(bindings) + 1)


def _untyped(value: Expr) -> Expr:
    """A value whose type is to be inferred again, because that of what it uses may be another."""
    return value if isinstance(value, Function | Var) else replace(value, ty=None)
