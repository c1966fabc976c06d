"""Results of a function that nobody uses."""

from collections import Counter
from collections.abc import Container

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import with_vars
from relaxjax.ir.retype import found_results
from relaxjax.ir.tuples import one_or_tuple
from relaxjax.ir.types import TupleType, Type
from relaxjax.ir.walk import children, nested_bindings, rewrite
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from .callers import called_only


@pass_factory(opt_level=0)
def RemoveUnusedOutputs(mod: IRModule) -> IRModule:
    """Take from the tuple that a private function returns the fields that no caller uses.

    A single field that is left is returned as it is, and nothing computes the others any more.
    """
    shorter = mod
    while True:
        changed = _without_one_round(shorter)
        if changed is shorter:
            return found_results(mod, shorter)
        shorter = changed


def _without_one_round(mod: IRModule) -> IRModule:
    """What one function passes on of another's results counts as used until it passes on less."""
    fields = {
        name: sorted(used)
        for name, used in _used_fields(mod).items()
        if len(used) < len(mod[name].body.body.fields)
    }
    if not fields:
        return mod
    shorter = {name: _returning(mod[name], kept) for name, kept in fields.items()}
    functions = {**mod.relax_functions(), **shorter}
    types = {name: function.ty for name, function in shorter.items()}
    return mod.with_functions({n: _caller(f, fields, types) for n, f in functions.items()})


def _used_fields(mod: IRModule) -> dict[str, set[int]]:
    """The fields that are used of what private functions return, where nothing uses the whole."""
    calls = called_only(mod)
    used: dict[str, set[int]] = {
        name: set() for name in calls if isinstance(mod[name].body.body, Tuple)
    }
    whole: set[str] = set()
    bound = Counter[str]()
    for function in mod.relax_functions().values():
        results = _results(function, used)
        bound.update(results.values())
        whole.update(name for var, name in results.items() if not isinstance(var.ty, TupleType))

        def read(expr: Expr, results: dict[Var, str] = results) -> None:
            value = expr.tuple_value if isinstance(expr, TupleGetItem) else expr
            name = results.get(value) if isinstance(value, Var) else None
            if name is not None and isinstance(expr, TupleGetItem):
                used[name].add(expr.index)
                return
            if name is not None:
                whole.add(name)
            for child in children(expr):
                read(child)

        read(function)
    whole.update(name for name in used if bound[name] < len(calls[name]))  # a call that is nested
    return {name: fields for name, fields in used.items() if name not in whole}


def _results(function: Function, names: Container[str]) -> dict[Var, str]:
    """The variables of a function that are bound to calls of some others."""
    bindings = nested_bindings(function)
    called = ((binding.var, _callee(binding.value)) for binding in bindings)
    return {var: name for var, name in called if name is not None and name in names}


def _callee(value: Expr) -> str | None:
    match value:
        case Call(op=GlobalVar(name=name)):
            return name
        case _:
            return None


def _returning(function: Function, fields: list[int]) -> Function:
    """The function with some fields of its result only."""
    body = function.body.body
    assert isinstance(body, Tuple)
    ty = _chosen_type(function.ret_ty, fields)
    chosen = [body.fields[index] for index in fields]
    result = one_or_tuple(chosen)
    seq = replace(function.body, body=result, ty=None)
    return remove_all_unused(replace(function, body=seq, ret_ty=ty))


def _chosen_type(ty: Type | None, fields: list[int]) -> Type:
    assert isinstance(ty, TupleType)
    chosen = tuple(ty.fields[index] for index in fields)
    return chosen[0] if len(chosen) == 1 else TupleType(chosen)


def _caller(
    function: Function, fields: dict[str, list[int]], types: dict[str, Type | None]
) -> Function:
    """A function in terms of the shorter results of those that it calls."""
    results = _results(function, fields)
    if not results:
        return function
    new = {
        var: type(var)(var.name, _chosen_type(var.ty, fields[name]), span=var.span)
        for var, name in results.items()
    }

    def rule(expr: Expr) -> Expr:
        match expr:
            case TupleGetItem(tuple_value=Var() as var, index=index) if var in new:
                kept = fields[results[var]]
                return new[var] if len(kept) == 1 else TupleGetItem(new[var], kept.index(index))
            case Call(op=GlobalVar(name=name) as op) if name in fields:
                ty = _chosen_type(expr.ty, fields[name])
                return replace(expr, op=replace(op, ty=types[name]), ty=ty)
            case _:
                return expr

    return canonical_bindings(with_vars(rewrite(function, rule), new))
