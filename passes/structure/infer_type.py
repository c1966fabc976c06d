"""The types that are missing, under Relay's name for it."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory

from .normalize import normalized


@pass_factory(opt_level=0)
def InferType(mod: IRModule) -> IRModule:
    """Infer the types that are missing, from those of the parameters.

    A type belongs to a variable, so what is nested is bound to one: this is Normalize by the name
    that it has in Relay. A module whose types are all known is the result itself.
    """
    return normalized(mod)
