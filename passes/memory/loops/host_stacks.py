"""Loops whose steps send what they stack to the host, and whose steps back fetch it again."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.tensor_types import has_floats
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TupleType
from relaxjax.ir.uses import values_of
from relaxjax.ir.walk import all_vars, map_bindings
from relaxjax.ops.loop_types import steps_of_loop
from relaxjax.passes.differentiation.vjp import in_terms_of

from ..program.caller import Place
from ..program.loop_bodies import leaves
from ..program.loop_pairs import LoopPair, first_and_second, function_in, loop_pairs
from ..program.program import Program
from ..program.step import size_of


@dataclass(frozen=True)
class Stack:
    """One of the values that the steps of a loop stack for the steps back."""

    pair: LoopPair
    index: int
    weight: int  # its bytes, times the steps for which it is away


def stacks_of(program: Program, least: int) -> Iterator[Stack]:
    """The stacks of so many bytes at least that the steps back alone read."""
    place = {step.var: at for at, step in enumerate(program.steps)}
    for pair in loop_pairs(program.function):
        call = pair.call
        count = steps_of_loop(call)
        others = {index for _, index in pair.parts}
        if not isinstance(count, int) or _adjoint(function_in(pair.steps[1])) is None:
            continue
        away = place[pair.back.var] - place[pair.forward.var]
        away += count * sum(len(list(function_in(step).body.bindings())) for step in pair.steps)
        for index, saved in enumerate(pair.saved):
            assert isinstance(saved, Var)
            size = count * size_of(saved)
            if index not in others and size >= least:
                yield Stack(pair, index, size * away)


def with_stacks_on_host(function: Function, stacks: Sequence[Stack]) -> Function:
    """The function with some stacks on the host."""
    if not stacks:
        return function
    chosen: dict[tuple[Var, int], tuple[LoopPair, set[int]]] = {}
    for stack in stacks:
        chosen.setdefault(stack.pair.key, (stack.pair, set()))[1].add(stack.index)
    steps = {}
    for pair in loop_pairs(function):
        _, indices = chosen.get(pair.key, (pair, set()))
        if indices:
            steps[pair.steps[0].var] = _sending(pair, indices)
            steps[pair.steps[1].var] = _fetching(pair, indices)
    body = map_bindings(function.body, lambda b: replace(b, value=steps.get(b.var, b.value)))
    return replace(function, body=body)


def _sending(pair: LoopPair, indices: Collection[int]) -> Function:
    """The step of a loop that sends what it saves to the host."""
    step = pair.step
    carry, rest = first_and_second(step.body.body)
    y, _ = first_and_second(rest)
    builder = BlockBuilder()
    with builder.scope(taken=[param.name for param in step.params]):
        emit_sequence(builder, step.body)
        saved: list[Expr] = list(pair.saved)
        for index in sorted(indices):
            var = saved[index]
            assert isinstance(var, Var)
            saved[index] = builder.emit(get_op("relax.memory.to_host")(var), f"{var.name}_host")
        body = builder.sequence(Tuple((carry, Tuple((y, Tuple(tuple(saved)))))))
    return renew(make_function(step.params, body, ret_ty=body.ty))[0]


def _fetching(pair: LoopPair, indices: Collection[int]) -> Function:
    """The step back that fetches what was sent."""
    back = function_in(pair.steps[1])
    adjoints, at_step = back.params
    assert isinstance(at_step.ty, TupleType)
    way = _adjoint(back)
    assert way is not None
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in (*back.params, *all_vars(back))]):
        moment: Expr = adjoints
        for part in way:
            moment = builder.emit(TupleGetItem(moment, part))
        stacked = builder.emit(TupleGetItem(at_step, pair.saved_at))
        values: list[Expr] = []
        for index, saved in enumerate(pair.saved):
            assert isinstance(saved, Var)
            value = builder.emit(TupleGetItem(stacked, index), saved.name)
            if index in indices:
                fetched = get_op("relax.memory.to_device")(value, moment)
                value = builder.emit(fetched, f"{saved.name}_back")
            values.append(value)
        fields = list(at_step)
        fields[pair.saved_at] = Tuple(tuple(values))
        rest = in_terms_of(back.body, {at_step: Tuple(tuple(fields))})
        body = builder.sequence(emit_sequence(builder, rest))
    return renew(make_function((adjoints, at_step), body, ret_ty=body.ty))[0]


def _adjoint(back: Function) -> Place | None:
    """The way to a tensor of numbers that a step back is handed by the one before it."""
    found = tensors_in(back.params[0].ty)
    return next((way for way, ty in found if has_floats(ty)), None)


def bytes_on_host(loop: Function, var: Var, at: Place = ()) -> int:
    """The bytes of what a loop gives that its steps, of this function, have sent to the host.

    They are those in the part of its result `var` that is `at` some place.
    """
    values = values_of(loop.body.bindings())
    sizes = {way: size_of(Var("stack", ty)) for way, ty in tensors_in(var.ty)}
    return sum(
        sizes.get(way, 0)
        for way, part in leaves(loop.body.body, values)
        if way[0] == 1 and way[: len(at)] == at and is_sent(values.get(part))
    )


def is_sent(value: Expr | None) -> bool:
    """Whether a value is on the host."""
    return isinstance(value, Call) and value.op is get_op("relax.memory.to_host")


def is_fetched(value: Expr) -> bool:
    """Whether a value comes back from there."""
    return isinstance(value, Call) and value.op is get_op("relax.memory.to_device")
