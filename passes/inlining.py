"""A function with the calls of its own closures spelt out."""

from collections.abc import Iterator

from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, If, SeqExpr, VarBinding
from relaxjax.ir.infer import unify
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew, substitute_symbols
from relaxjax.ir.walk import nested_sequences, substitute, used_vars

Closures = dict[Var, Function]


def inline_closures(function: Function) -> Function:
    """`function` with what its closures do in the place of their calls, in branches too.

    A closure that calls itself is left alone. The blocks of a function that changes are joined.
    """
    sequences = nested_sequences(function.body)
    if not any(isinstance(b.value, Function) for seq in sequences for b in seq.bindings()):
        return function
    return replace(function, body=_sequence(function.body, {}))


def _sequence(seq: SeqExpr, closures: Closures) -> SeqExpr:
    bindings = tuple(_bindings(seq, dict(closures)))
    return replace(seq, blocks=(BindingBlock(bindings),))


def _bindings(seq: SeqExpr, closures: Closures) -> Iterator[Binding]:
    for binding in seq.bindings():
        value = binding.value
        if isinstance(value, Function) and binding.var not in used_vars(value):
            closures[binding.var] = value
        if isinstance(value, If):
            true, false = (_sequence(b, closures) for b in (value.true_branch, value.false_branch))
            binding = replace(binding, value=replace(value, true_branch=true, false_branch=false))
        if isinstance(value, Call) and isinstance(value.op, Var) and value.op in closures:
            body = _opened(closures[value.op], value.args)
            yield from _bindings(body, closures)
            yield VarBinding(binding.var, body.body, span=binding.span)
        else:
            yield binding


def _opened(closure: Function, args: tuple[Expr, ...]) -> SeqExpr:
    """The body of a closure in terms of the arguments of one call."""
    copy, _ = renew(closure)
    symbols: dict[SymbolicVar, Dim] = {}
    for param, arg in zip(copy.params, args, strict=True):
        if param.ty is not None:
            unify(param.ty, arg.ty, symbols)
    copy_of_call = substitute_symbols(copy, symbols)
    assert isinstance(copy_of_call, Function)
    given = dict(zip(copy_of_call.params, args, strict=True))
    body = substitute(copy_of_call.body, given)
    assert isinstance(body, SeqExpr)
    return body
