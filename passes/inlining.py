"""A function with less to look up: its closures spelt out, the symbols of its casts resolved."""

from collections.abc import Iterator

from relaxjax.ir.dims import Dim, SymbolicVar, substitute_dim
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.infer import unify
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew, substitute_symbols
from relaxjax.ir.walk import free_vars, nested_sequences, substitute, type_symbols, used_vars

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


def resolve_casts(seq: SeqExpr) -> SeqExpr:
    """`seq` with the symbols that its casts define replaced by dimensions known before them.

    So what is computed here has a type that can be said outside, where those symbols are unknown.
    """
    outer = {symbol for var in free_vars(seq) for symbol in type_symbols(var.ty)}
    known: dict[SymbolicVar, Dim] = {}
    for binding in seq.bindings():
        if isinstance(binding, MatchCast):
            found: dict[SymbolicVar, Dim] = {}
            unify(binding.ty, binding.value.ty, found)
            for symbol, dim in found.items():
                if symbol not in outer:
                    known.setdefault(symbol, substitute_dim(dim, known))
    resolved = substitute_symbols(seq, known)
    assert isinstance(resolved, SeqExpr)
    return resolved


def _opened(closure: Function, args: tuple[Expr, ...]) -> SeqExpr:
    """The body of a closure in terms of the arguments of one call."""
    copy, _ = renew(closure)
    symbols: dict[SymbolicVar, Dim] = {}
    for param, arg in zip(copy.params, args, strict=True):
        if param.ty is not None:
            unify(param.ty, arg.ty, symbols)
    outer = {symbol for var in free_vars(copy) for symbol in type_symbols(var.ty)}
    own = {symbol: dim for symbol, dim in symbols.items() if symbol not in outer}
    copy_of_call = substitute_symbols(copy, own)
    assert isinstance(copy_of_call, Function)
    given = dict(zip(copy_of_call.params, args, strict=True))
    body = substitute(copy_of_call.body, given)
    assert isinstance(body, SeqExpr)
    return body
