"""The function that an adjoint is called by, such as a training step, whose memory is planned."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.inline import inline_functions
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import values_of_kind
from relaxjax.ir.walk import global_vars, used_vars
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

# A parameter of a caller by its position, and the way to a part of it.
Place: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Caller:
    """A function that calls an adjoint once.

    The memory of the parameters at `donate` becomes that of its results. `differentiated` are the
    positions of those parameters of the adjoint that its gradients are of. If it is a training
    step, UpdateInLoops comes after all plans, and what it saves counts.
    """

    name: str
    donate: tuple[int, ...]
    differentiated: tuple[int, ...]
    updates_in_loops: bool = False


@dataclass(frozen=True)
class CallersPart:
    """What a caller computes of an adjoint's results, in terms of the adjoint's variables."""

    bindings: tuple[Binding, ...]
    results: frozenset[Var]
    # The tensors in parameters whose memory becomes that of results, by all the names that they
    # have in both functions: each name, and the first of the same tensor.
    given: Mapping[Var, Var]
    in_place: Mapping[Var, Var | None]  # the results that take it, and which if anybody reads that


def callers_part(mod: IRModule, name: str, caller: Caller) -> CallersPart:
    """What `caller` computes of the results of the adjoint `name`."""
    function, adjoint = with_open_caller(mod, name, caller)[caller.name], mod[name]
    assert isinstance(function, Function)
    assert isinstance(adjoint, Function)
    body = function.body
    given = written_out(adjoint.body.body, _tuples(adjoint.body))
    bindings = tuple(_with_results(binding, name, given) for binding in body.bindings())
    seq = SeqExpr((BindingBlock(bindings),), body.body)
    flat = canonical_bindings(replace(function, body=seq)).body
    results = tuple(dict.fromkeys(_leaves(flat)))
    places = _places(function, name, adjoint, (*adjoint.body.bindings(), *flat.bindings()))
    first = {place: var for var, place in reversed(places.items())}
    names = {var: first[at] for var, at in places.items() if at[0] in caller.donate}
    free: dict[TensorType, deque[Place]] = defaultdict(deque)
    for at in caller.donate:
        for place, ty in tensors_in(function.params[at].ty, (at,)):
            free[ty].append(place)
    in_place = {var: first.get(place) for var, place in _placed(results, free)}
    return CallersPart(tuple(flat.bindings()), frozenset(results), names, in_place)


def with_open_caller(mod: IRModule, name: str, caller: Caller) -> IRModule:
    """The module whose `caller` calls the adjoint `name` alone: what else it called is in it."""
    function: Function = mod[caller.name]
    others = {n: f for n, f in mod.relax_functions().items() if n not in (name, caller.name)}
    if all(called.name not in others for called in global_vars(function)):
        return mod
    return mod.with_function(caller.name, inline_functions(function, others))


def _places(
    function: Function, name: str, adjoint: Function, bindings: Iterable[Binding]
) -> dict[Var, Place]:
    """What of a caller's parameters variables of both functions stand for."""
    places: dict[Var, Place] = {param: (at,) for at, param in enumerate(function.params)}
    for binding in function.body.bindings():
        if _is_call(binding, name):
            assert isinstance(binding.value, Call)
            for param, arg in zip(adjoint.params, binding.value.args, strict=True):
                note_place(places, param, arg)
        else:
            note_place(places, binding.var, binding.value)
    for binding in bindings:
        note_place(places, binding.var, binding.value)
    return places


def note_place(places: dict[Var, Place], var: Var, value: Expr) -> None:
    """Tell what a variable of that value stands for."""
    way: Place = ()
    while isinstance(value, TupleGetItem):
        way = (value.index, *way)
        value = value.tuple_value
    if isinstance(value, Var) and value in places:
        places[var] = (*places[value], *way)


def _with_results(binding: Binding, name: str, given: Expr) -> Binding:
    """A binding with the results of the adjoint `name` in the place of its call."""
    return VarBinding(binding.var, given) if _is_call(binding, name) else binding


def _is_call(binding: Binding, name: str) -> bool:
    call = binding.value
    return isinstance(call, Call) and isinstance(call.op, GlobalVar) and call.op.name == name


def _leaves(seq: SeqExpr) -> tuple[Var, ...]:
    """The variables that a sequence gives, those in tuples one by one."""
    return used_vars(written_out(seq.body, _tuples(seq)))


def _tuples(seq: SeqExpr) -> dict[Expr, Tuple]:
    return dict(values_of_kind(seq.bindings(), Tuple).items())


def written_out(value: Expr, tuples: Mapping[Expr, Tuple]) -> Expr:
    """A value without names for tuples."""
    value = tuples.get(value, value)
    if not isinstance(value, Tuple):
        return value
    return Tuple(tuple(written_out(field, tuples) for field in value.fields))


def _placed(
    results: Sequence[Var], free: Mapping[TensorType, deque[Place]]
) -> Iterator[tuple[Var, Place]]:
    """The results that there is a parameter of the same type for, each with the next of those."""
    for var in results:
        for _, ty in tensors_in(var.ty):
            if free.get(ty):
                yield var, free[ty].popleft()
