"""Parameters fixed to constants."""

from collections.abc import Mapping
from typing import Any

from relaxjax.ir.expr import GlobalVar
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.walk import global_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function


@pass_factory(opt_level=0)
def BindParams(mod: IRModule, func_name: str | GlobalVar, params: Mapping[Any, Any]) -> IRModule:
    """Fix parameters of a function to constants: they are parameters no more.

    Symbolic dimensions that a constant tells become numbers, and types are inferred anew.

    Args:
        func_name: the function, which no other function of the module may call.
        params: an array for each parameter to be fixed, by its name or by the variable itself.
    """
    name = mod.get_global_var(name_of(func_name)).name
    if not params:
        return mod
    for caller, function in mod.relax_functions().items():
        if any(var.name == name for var in global_vars(function)):
            raise ValueError(
                f"`{caller}` calls `{name}`: only a function that no other one calls can lose "
                "parameters; run Inline first, or bind the parameters of the caller"
            )
    with in_function(name, mod[name]):
        return mod.with_function(name, mod[name].bind_params(params))
