"""The function that an adjoint is called by, such as a training step, whose memory is planned."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.inline import inline_functions
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import used_vars
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings


@dataclass(frozen=True)
class Caller:
    """A function that calls an adjoint once.

    The memory of the parameters at `donate` becomes that of its results. `differentiated` are the
    positions of those parameters of the adjoint that its gradients are of.
    """

    name: str
    donate: tuple[int, ...]
    differentiated: tuple[int, ...]


@dataclass(frozen=True)
class Rest:
    """What a caller computes of an adjoint's results, in terms of the adjoint's variables."""

    bindings: tuple[Binding, ...]
    results: frozenset[Var]
    in_place: frozenset[Var]  # the results that take the memory of parameters


def rest_of(mod: IRModule, name: str, caller: Caller) -> Rest:
    """What `caller` computes of the results of the adjoint `name`."""
    function, adjoint = mod[caller.name], mod[name]
    assert isinstance(function, Function)
    assert isinstance(adjoint, Function)
    others = {n: f for n, f in mod.relax_functions().items() if n not in (name, caller.name)}
    body = inline_functions(function, others).body
    given = _written_out(adjoint.body.body, _tuples(adjoint.body))
    bindings = tuple(_with_results(binding, name, given) for binding in body.bindings())
    seq = SeqExpr((BindingBlock(bindings),), body.body)
    flat = canonical_bindings(replace(function, body=seq)).body
    results = tuple(dict.fromkeys(_leaves(flat)))
    free = Counter(ty for at in caller.donate for ty in _tensors(function.params[at].ty))
    in_place = frozenset(_placed(results, free))
    return Rest(tuple(flat.bindings()), frozenset(results), in_place)


def _with_results(binding: Binding, name: str, given: Expr) -> Binding:
    """A binding with the results of the adjoint `name` in the place of its call."""
    call = binding.value
    is_call = isinstance(call, Call) and isinstance(call.op, GlobalVar) and call.op.name == name
    return VarBinding(binding.var, given) if is_call else binding


def _leaves(seq: SeqExpr) -> tuple[Var, ...]:
    """The variables that a sequence gives, those in tuples one by one."""
    return used_vars(_written_out(seq.body, _tuples(seq)))


def _tuples(seq: SeqExpr) -> dict[Expr, Tuple]:
    return {b.var: b.value for b in seq.bindings() if isinstance(b.value, Tuple)}


def _written_out(value: Expr, tuples: Mapping[Expr, Tuple]) -> Expr:
    """A value without names for tuples."""
    value = tuples.get(value, value)
    if not isinstance(value, Tuple):
        return value
    return Tuple(tuple(_written_out(field, tuples) for field in value.fields))


def _placed(results: Sequence[Var], free: Counter[TensorType]) -> Iterator[Var]:
    """The results that there is a parameter of the same type for."""
    for var in results:
        for ty in _tensors(var.ty):
            if free[ty]:
                free[ty] -= 1
                yield var


def _tensors(ty: Type | None) -> Iterator[TensorType]:
    if isinstance(ty, TensorType):
        yield ty
    elif isinstance(ty, TupleType):
        for field in ty.fields:
            yield from _tensors(field)
