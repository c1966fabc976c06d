"""Every function public, under its own name."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0)
def AttachGlobalSymbol(mod: IRModule) -> IRModule:
    """Give every function the name that it has in the module as its global symbol.

    Private functions become public by it, so nothing removes or inlines them any more.
    """
    return mod.with_functions(
        {
            name: function.with_attr("global_symbol", name)
            for name, function in mod.relax_functions().items()
            if function.global_symbol != name
        }
    )
