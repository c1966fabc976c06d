"""Forward-mode differentiation: the program that computes tangents too, written out as IR."""

from collections.abc import Sequence

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.derivatives import (
    ADJOINT,
    CUSTOM_JVP,
    PRODUCTS,
    TANGENTS,
    carries_gradient,
    smooth_places,
)
from relaxjax.ir.expr import GlobalVar, Tuple
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.node import replace
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function

from .activity import obstacles
from .adjoint import GradientError
from .forward_mode import ForwardMode
from .gradient import Gradient, free_name, function_of, refuse_own_rule
from .inlining import inline_closures


@pass_factory(opt_level=0)
def Jvp(
    mod: IRModule, func_name: str | GlobalVar, wrt: str | Sequence[str] | None = None
) -> IRModule:
    """Add a function that gives the result of another and its tangent: `<func_name>_jvp`.

    It takes the parameters of the function, then the tangents of those that `wrt` names, of all
    that can have one where it is None, and returns `(result, tangent)`. A tangent is of the type of
    what it belongs to, with zeros for integers.
    """
    name = name_of(func_name)
    function = function_of(mod, name)
    with in_function(name, function):
        jvp, mod = _jvp(mod, name, function, wrt, TANGENTS)
    return mod.with_function(name + TANGENTS, jvp)


@pass_factory(opt_level=0)
def HessianVectorProduct(mod: IRModule, func_name: str | GlobalVar) -> IRModule:
    """Add `<func_name>_hvp`: the products of a scalar function's Hessian with vectors.

    It takes the parameters of the function, then a vector for each that can have a gradient, and
    returns a tuple of as many products: the tangent of the gradients, forward over reverse.
    """
    name = name_of(func_name)
    function = function_of(mod, name)
    wanted = [param.name for param in function.params if carries_gradient(param.ty)]
    differentiated = Gradient(name, require_grads=wanted)(mod)
    adjoint = differentiated[name + ADJOINT]
    with in_function(name, function):
        gradients = _returning(adjoint, 1)
        jvp, mod = _jvp(
            differentiated.without_functions(name + ADJOINT), name, gradients, wanted, PRODUCTS
        )
        products = remove_all_unused(_returning(jvp, 1))
    return mod.with_function(name + PRODUCTS, products)


def _jvp(
    mod: IRModule, name: str, function: Function, wrt: str | Sequence[str] | None, ending: str
) -> tuple[Function, IRModule]:
    """The derivative of a function, called after it, and the module with what that calls."""
    refuse_own_rule(name, function, CUSTOM_JVP)
    added = free_name(mod, name, ending)
    indices = _indices(name, function, wrt)
    whole = inline_closures(function)
    required = [whole.params[index] for index in indices]
    bindings = tuple(whole.body.bindings())
    problems = obstacles(mod, whole.body.body, bindings, required, forward=True)
    if problems:
        raise GradientError("\n".join(["no tangent is known for:", *problems]))
    forward_mode = ForwardMode(mod, added)
    jvp = forward_mode.function(function, tuple(indices))
    return replace(jvp, attrs=Attrs(jvp.attrs, global_symbol=added)), forward_mode.module


def _indices(name: str, function: Function, wrt: str | Sequence[str] | None) -> list[int]:
    """The indices of the parameters that `wrt` names."""
    able = smooth_places(function)
    if wrt is None:
        return able
    wanted = [wrt] if isinstance(wrt, str) else list(wrt)
    names = {function.params[index].name: index for index in able}
    for item in wanted:
        if item not in names:
            raise GradientError(
                f"`wrt` names `{item}`, but the parameters of `{name}` that can have a tangent "
                f"are {', '.join(f'`{n}`' for n in names) or 'none'}"
            )
    return [index for index in able if function.params[index].name in wanted]


def _returning(function: Function, index: int) -> Function:
    """The function with one field of its result for the whole."""
    result = function.body.body
    assert isinstance(result, Tuple)
    body = SeqExpr(function.body.blocks, result.fields[index])
    return make_function(
        function.params, body, pure=function.pure, attrs=function.attrs, span=function.span
    )
