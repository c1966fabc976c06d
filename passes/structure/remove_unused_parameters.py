"""Parameters that a function does not use."""

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, Expr, GlobalVar, ShapeExpr, Var
from relaxjax.ir.function import Function, MatchCast
from relaxjax.ir.infer import dims_told
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import ShapeType
from relaxjax.ir.walk import (
    definable_symbols,
    expr_symbols,
    nested_bindings,
    type_symbols,
    type_vars,
    used_vars,
)
from relaxjax.passes.infrastructure.base import pass_factory

from .callers import called_only, with_calls


@pass_factory(opt_level=0)
def RemoveUnusedParameters(mod: IRModule) -> IRModule:
    """Take from private functions the parameters that they do not use, and from their calls.

    A symbolic dimension that only such a parameter tells is passed as a shape in its place.
    """
    while True:
        changed = _without_one_round(mod)
        if changed is mod:
            return mod
        mod = changed


def _without_one_round(mod: IRModule) -> IRModule:
    """What one function passes on to another counts as used until the other has lost it."""
    calls = called_only(mod)
    shorter = {name: _needed_only(mod[name]) for name in calls}
    changed = {
        name: function
        for name, function in shorter.items()
        if function is not mod[name]
        and all(_tells(call, mod[name], function) for call in calls[name])
    }

    def with_less(call: Call) -> Expr | None:
        assert isinstance(call.op, GlobalVar)
        if call.op.name not in changed:
            return None
        old, new = mod[call.op], changed[call.op.name]
        return replace(call, op=replace(call.op, ty=new.ty), args=_arguments(call, old, new))

    functions = {**mod.relax_functions(), **changed}
    return mod.with_functions({name: with_calls(f, with_less) for name, f in functions.items()})


def _needed_only(function: Function) -> Function:
    """The function without the parameters that it does not use, but with the shapes they tell."""
    used = {*used_vars(function), *type_vars(function.ret_ty)}
    used_symbols = _symbols_used(function, [param for param in function.params if param in used])
    needed = [param for param in function.params if param in used or _is_shape(param, used_symbols)]
    if len(needed) == len(function.params):
        return function
    told = {symbol for param in needed for symbol in definable_symbols(param.ty)}
    wanted = _symbols_used(function, needed) - told
    lost = dict.fromkeys(
        symbol
        for param in function.params
        for symbol in definable_symbols(param.ty)
        if symbol in wanted
    )
    shapes = (Var(f"param_{symbol.name}", ShapeType((symbol,))) for symbol in lost)
    return replace(function, params=(*needed, *shapes))


def _is_shape(param: Var, symbols: set[SymbolicVar]) -> bool:
    """Whether a parameter is there to tell one of some symbolic dimensions."""
    told = definable_symbols(param.ty)
    return isinstance(param.ty, ShapeType) and any(symbol in symbols for symbol in told)


def _symbols_used(function: Function, params: list[Var]) -> set[SymbolicVar]:
    """The symbolic dimensions in a function, of its parameters only those in the types of some."""
    types = [function.ret_ty, *(param.ty for param in params)]
    bindings = nested_bindings(function)
    types += [binding.ty for binding in bindings if isinstance(binding, MatchCast)]
    return {*expr_symbols(function.body), *(symbol for ty in types for symbol in type_symbols(ty))}


def _shape_symbols(old: Function, new: Function) -> list[SymbolicVar]:
    added = [param for param in new.params if param not in old.params]
    return [symbol for param in added for symbol in definable_symbols(param.ty)]


def _tells(call: Call, old: Function, new: Function) -> bool:
    """Whether the types of a call's arguments tell every dimension that must be passed."""
    return dims_told(old.params, call.args).keys() >= set(_shape_symbols(old, new))


def _arguments(call: Call, old: Function, new: Function) -> tuple[Expr, ...]:
    given = dict(zip(old.params, call.args, strict=True))
    dims = dims_told(old.params, call.args)
    shapes = (ShapeExpr((dims[symbol],)) for symbol in _shape_symbols(old, new))
    return (*(given[param] for param in new.params if param in given), *shapes)
