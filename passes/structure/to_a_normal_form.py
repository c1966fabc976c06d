"""Every value bound to a variable, under Relay's name for it."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory

from .normalize import normalized


@pass_factory(opt_level=1)
def ToANormalForm(mod: IRModule) -> IRModule:
    """Bind every nested value to a variable, in the order in which it is computed.

    A nested value stays in the scope of what it stands in, and what is the same object in one block
    is bound once: so this undoes ToGraphNormalForm. It is Normalize by the name that it has in
    Relay.
    """
    return normalized(mod)
