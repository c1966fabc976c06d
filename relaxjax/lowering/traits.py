"""What a function needs of whoever runs it, and a run that has the dtypes it needs."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax

from relaxjax.ir.expr import Call, ExternFunc, Var
from relaxjax.ir.function import Function, If
from relaxjax.ir.lattice import common_type
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.reached import reached
from relaxjax.ir.types import ObjectType
from relaxjax.ir.walk import definable_symbols, global_vars, nested_bindings, post_order
from relaxjax.ops.lax import is_wide, x64_enabled
from relaxjax.ops.packed import is_traceable

from .interpreter import holds_tensors


def compiles(mod: IRModule, name: str) -> bool:
    """Whether a function can be one compiled program, whatever its arguments are."""
    if not holds_tensors(mod[name].ret_ty):
        return False
    return not any(
        calls_itself(mod, used) or needs_values(function) for used, function in reachable(mod, name)
    )


def needs_x64(mod: IRModule, name: str) -> bool:
    """Whether a function, or one that it calls, has a value of a 64-bit dtype."""
    return any(_is_wide(function) for _, function in reachable(mod, name))


def has_symbols(mod: IRModule, name: str) -> bool:
    """Whether the arguments of a function tell symbolic dimensions."""
    return any(definable_symbols(param.ty) for param in mod[name].params)


def reachable(mod: IRModule, name: str) -> Iterator[tuple[str, Function]]:
    """The function `name` and all functions that it calls, directly or not."""

    def called(current: str) -> Iterator[str]:
        return (var.name for var in global_vars(mod[current]))

    found = ((current, mod[current]) for current in reached([name], called))
    return (pair for pair in found if isinstance(pair[1], Function))


def calls_itself(mod: IRModule, name: str) -> bool:
    """Whether a function, or a closure inside it, calls itself, directly or not."""
    function = mod[name]
    called = {used for var in global_vars(function) for used, _ in reachable(mod, var.name)}
    return name in called or any(_is_recursive(var, f) for var, f in _closures(function))


def needs_values(function: Function) -> bool:
    """Whether a function calls a Python function, or an operator that must see values.

    A Python function that is registered as traceable is as good as an operator. A choice must see
    its condition where the types of its branches say that they give different shapes or dtypes.
    """
    return any(
        (isinstance(expr, ExternFunc) and not is_traceable(expr.symbol))
        or (isinstance(expr, Op) and "data_dependent" in expr.facts)
        or (isinstance(expr, If) and _gives_either(expr))
        for expr in post_order(function)
    )


def _gives_either(choice: If) -> bool:
    """Whether the branches give two types, and not one that one of them only knows less of."""
    one, other = (branch.ty or ObjectType() for branch in (choice.true_branch, choice.false_branch))
    return common_type(one, other) not in (one, other)


def _closures(function: Function) -> Iterator[tuple[Var, Function]]:
    for binding in nested_bindings(function):
        if isinstance(binding.value, Function):
            yield binding.var, binding.value


def _is_recursive(var: Var, closure: Function) -> bool:
    return any(expr is var for expr in post_order(closure))


def _is_wide(function: Function) -> bool:
    parts: dict[int, Any] = {id(param): param.ty for param in function.params}
    for expr in post_order(function):  # the same types are met many times
        parts[id(expr.ty)] = expr.ty
        if isinstance(expr, Call):
            parts[id(expr.attrs)] = expr.attrs
    return is_wide(*parts.values())


def in_own_dtypes(run: Callable[..., Any], mod: IRModule, name: str) -> Callable[..., Any]:
    """A function of a module with the dtypes that its loss was traced with.

    A scope of `jax.enable_x64` inside of the loss has ended when its program runs.
    """
    if x64_enabled() or not needs_x64(mod, name):
        return run

    @functools.wraps(run)
    def wide(*args: Any) -> Any:
        with jax.enable_x64(True):
            return run(*args)

    return wide
