"""Functions whose callees have changed."""

from collections import Counter
from collections.abc import Callable, Mapping

from relaxjax.ir.derivatives import own_derivatives
from relaxjax.ir.expr import Call, Expr, GlobalVar, Var
from relaxjax.ir.function import Function
from relaxjax.ir.inline import callees_first
from relaxjax.ir.module import IRModule
from relaxjax.ir.retype import retyped
from relaxjax.ir.types import Type
from relaxjax.ir.walk import global_vars, post_order, rewrite
from relaxjax.passes.infrastructure.error_notes import in_function


def with_callers(
    mod: IRModule,
    changed: Mapping[str, Function],
    values: Callable[[Function], Mapping[Var, Expr]] = lambda function: {},
) -> IRModule:
    """`mod` with some functions changed, and the types in those that call them inferred anew.

    `values` says for each function which parameters are to be replaced, as `retyped` does it.
    """
    functions = {**mod.relax_functions(), **changed}
    types: dict[str, Type | None] = {
        name: function.ty for name, function in changed.items() if function.ty != mod[name].ty
    }
    for name in callees_first(functions):
        function = functions[name]
        given = values(function)
        if given or any(var.name in types for var in global_vars(function)):
            with in_function(name, function):
                functions[name] = retyped(function, given, types)
            if functions[name].ty != function.ty:
                types[name] = functions[name].ty
    return mod.with_functions(functions)


def called_only(mod: IRModule) -> dict[str, list[Call]]:
    """The calls of each private function that is never used as a value.

    Functions that have derivatives of their own, and these derivatives, are not among them: they
    take and return what belongs together.
    """
    functions = mod.relax_functions()
    derivatives = {name for function in functions.values() for name in own_derivatives(function)}
    calls: dict[str, list[Call]] = {
        name: []
        for name, f in functions.items()
        if f.global_symbol is None and name not in derivatives and not own_derivatives(f)
    }
    mentions = Counter[str]()
    for function in functions.values():
        for expr in post_order(function):
            if isinstance(expr, GlobalVar):
                mentions[expr.name] += 1
            elif isinstance(expr, Call) and isinstance(expr.op, GlobalVar):
                calls.get(expr.op.name, []).append(expr)
    return {name: found for name, found in calls.items() if len(found) == mentions[name]}


def with_calls(function: Function, change: Callable[[Call], Expr | None]) -> Function:
    """`function` with what `change` gives in the place of calls of functions of the module."""

    def rule(expr: Expr) -> Expr:
        if not isinstance(expr, Call) or not isinstance(expr.op, GlobalVar):
            return expr
        changed = change(expr)
        return expr if changed is None else changed

    return rewrite(function, rule)
