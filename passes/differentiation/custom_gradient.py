"""Derivatives by rules of the user's own: of operators declared elsewhere, of whole functions."""

import functools
from collections.abc import Callable
from typing import Any

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.derivatives import CUSTOM_FORWARD, CUSTOM_GRADIENT, CUSTOM_JVP, carries_gradient
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import BaseFunc, IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import NoGradient, Op, get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.types import TupleType, Type
from relaxjax.ir.walk import rewrite
from relaxjax.ops.declare import check_rule
from relaxjax.ops.jax_functions import call_jax
from relaxjax.passes.infrastructure.base import pass_factory

from .adjoint import GradientError
from .consistency import check_function_rules, check_operator_rules


@pass_factory(opt_level=0)
def CustomGradient(
    mod: IRModule, name: str, gradient: Any = None, jvp: Any = None, check: bool = True
) -> IRModule:
    """Let an operator, or a function of the module, be differentiated by rules of your own.

    For an operator such as "relax.nn.relu", the rules are Python functions as `relaxjax.op` takes
    them. They hold for the calls that are in the module now. They are not in its text, and JAX does
    not use them where it differentiates the compiled module.

    For a function `f` of the module, a rule is the name of another function of the module, or a
    function in JAX, which is added to it. `gradient(*params, cotangent)` returns a tuple with a
    gradient for each parameter that can have one. `jvp(*params, *tangents)` takes as many tangents
    and returns `(result, tangent)`. Attributes of `f` name the rules, and its body is not
    differentiated. A rule that is not given stays as it was: `Jvp` goes through the body of a
    function that has a gradient alone.

    Where both rules are given, they are compared at random arguments: <u, Jv> and <J'u, v> must be
    equal. `check=False` leaves that out.
    """
    if gradient is None and jvp is None:
        raise GradientError(f"`CustomGradient` of `{name}` needs a `gradient`, a `jvp`, or both")
    if name not in mod:
        return _of_operator(mod, name, gradient, jvp, check)
    function = mod[name]
    if not isinstance(function, Function):
        raise GradientError(f"`{name}` is no Relax function: only those take rules of their own")
    able = [param.ty for param in function.params if carries_gradient(param.ty)]
    params = [param.ty for param in function.params]
    mod, gradient = _named(mod, function, f"{name}_gradient", gradient, [*params, function.ret_ty])
    mod, jvp = _named(mod, function, f"{name}_jvp", jvp, [*params, *able])
    if gradient is not None:
        ret = TupleType(tuple(ty for ty in able if ty is not None))
        _check_rule(mod, name, "gradient", gradient, [*params, function.ret_ty], ret)
        attrs = function.attrs.without(CUSTOM_FORWARD)  # which was for the gradient before
        function = replace(function, attrs=attrs).with_attr(CUSTOM_GRADIENT, gradient)
    if jvp is not None:
        ret = TupleType((function.ret_ty, function.ret_ty))
        _check_rule(mod, name, "jvp", jvp, [*params, *able], ret)
        function = function.with_attr(CUSTOM_JVP, jvp)
    changed = mod.with_function(name, function)
    if check and CUSTOM_GRADIENT in function.attrs and CUSTOM_JVP in function.attrs:
        rules = function.attrs[CUSTOM_GRADIENT], function.attrs[CUSTOM_JVP]
        check_function_rules(changed, name, *rules)
    return changed


def _named(
    mod: IRModule, function: Function, name: str, rule: Any, types: list[Type | None]
) -> tuple[IRModule, Any]:
    """A rule by its name: one that is written in JAX is added to the module."""
    if not callable(rule):
        return mod, rule
    params = [Var(f"x{index}", ty) for index, ty in enumerate(types)]
    builder = BlockBuilder(mod)
    with builder.function(name, params, private=True, pure=function.pure):
        result = builder.emit(call_jax(_as_tuple(rule), *params))
        added = builder.emit_func_output(result)
    own, _ = renew(builder.get()[added.name])
    return mod.with_function(added.name, own), added.name


def _as_tuple(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that gives one gradient by itself may do so without a tuple around it."""

    @functools.wraps(rule)
    def in_tuple(*args: Any) -> Any:
        result = rule(*args)
        return tuple(result) if isinstance(result, tuple | list) else (result,)

    return in_tuple


def _of_operator(mod: IRModule, name: str, gradient: Any, jvp: Any, check: bool) -> IRModule:
    operator = get_op(name)
    given = {"gradient": gradient, "jvp": jvp}
    for kind, rule in given.items():
        if rule is not None and not callable(rule) and not isinstance(rule, NoGradient):
            raise GradientError(
                f"the `{kind}` of the operator {name} must be a Python function or ZERO_GRADIENT, "
                f"found {rule!r}"
            )
        check_rule(operator, kind, rule)
    own = replace(operator, **{kind: rule for kind, rule in given.items() if rule is not None})

    def changed(expr: Expr) -> Expr:
        return own if isinstance(expr, Op) and expr.name == name else expr

    functions: dict[str, BaseFunc] = {}
    for function_name, function in mod.relax_functions().items():
        rewritten = rewrite(function, changed)
        functions[function_name] = rewritten
    changed_module = mod.with_functions(functions)
    if check and callable(own.gradient) and callable(own.jvp):
        check_operator_rules(changed_module, own)
    return changed_module


def _check_rule(
    mod: IRModule, name: str, kind: str, rule: Any, params: list[Type | None], ret: Type
) -> None:
    """The types of a function that is to be a rule, against what it must take and return."""
    if not isinstance(rule, str):
        raise GradientError(
            f"the `{kind}` of the function `{name}` must be the name of a function of the module, "
            f"or a function in JAX, found {rule!r}"
        )
    function = mod[rule]
    if not isinstance(function, Function):
        raise GradientError(f"`{rule}` is no Relax function: it cannot be the {kind} of `{name}`")
    if len(function.params) != len(params):
        raise GradientError(
            f"the {kind} `{rule}` of `{name}` must take {len(params)} parameters, "
            f"found {len(function.params)}"
        )
    for param, wanted in zip(function.params, params, strict=True):
        if fits(wanted, param.ty) is Fit.NEVER:
            raise GradientError(
                f"the {kind} `{rule}` of `{name}`: the parameter `{param.name}` must take "
                f"{wanted}, found {param.ty}"
            )
    if fits(function.ret_ty, ret) is Fit.NEVER:
        raise GradientError(
            f"the {kind} `{rule}` of `{name}` must return {ret}, found {function.ret_ty}"
        )
