"""Parameters that an imported model brings along."""

from relaxjax.ir.expr import Constant
from relaxjax.ir.module import IRModule
from relaxjax.tvm.nd import NDArray, array

PARAMS = "params"  # the attribute of a function that holds their arrays, behind its inputs


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[NDArray]]]:
    """The module without the arrays of its functions' parameters, and these by function."""
    detached: dict[str, list[NDArray]] = {}
    for name, function in mod.relax_functions().items():
        held = function.attrs.get(PARAMS)
        if held is None:
            continue
        detached[name] = [array(one.data) for one in held if isinstance(one, Constant)]
        mod = mod.with_function(name, function.without_attr(PARAMS))
    return mod, detached
