"""Other types for parameters."""

from collections.abc import Callable

from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import Type, same_type
from relaxjax.passes.infrastructure.base import pass_factory

from .callers import with_callers


@pass_factory(opt_level=1)
def UpdateParamType(mod: IRModule, ty_func: Callable[[Var], Type | None]) -> IRModule:
    """Give parameters the types that a function says, and infer all others anew.

    Symbolic dimensions that a new type tells are replaced in the whole function; callers follow.

    Args:
        ty_func: called with each parameter of each function; the type that it gets, or None for
            one that keeps its own.
    """

    def retyped_params(function: Function) -> dict[Var, Expr]:
        types = {param: ty_func(param) for param in function.params}
        return {
            param: Var(param.name, ty, span=param.span)
            for param, ty in types.items()
            if ty is not None and not same_type(ty, param.ty)
        }

    return with_callers(mod, {}, retyped_params)
