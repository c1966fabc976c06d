"""A training step that holds images as they are computed fastest."""

from relaxjax.ir.module import IRModule
from relaxjax.lowering.selection import with_called
from relaxjax.lowering.traits import reachable
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.layout.channels_last import ChannelsLast
from relaxjax.trainable.arguments import required_function
from relaxjax.trainable.names import BACKBONE, BACKBONE_LOSS


@pass_factory(opt_level=0)
def LossChannelsLast(mod: IRModule, kernel_layout: str = "default") -> IRModule:
    """Compute the convolutions of `backbone_loss` with their channels last where that pays.

    ChannelsLast explains where, and what `kernel_layout` is. Inputs and results are as they were,
    and so is the backbone with what it calls; what only the loss had called is gone.
    """
    required_function(mod, BACKBONE_LOSS)
    before = with_called(mod, [BACKBONE_LOSS])
    after = ChannelsLast(kernel_layout=kernel_layout)(before)
    if after is before:
        return mod
    changed = mod.with_function(BACKBONE_LOSS, after[BACKBONE_LOSS])
    roots = (name for name in (BACKBONE_LOSS, BACKBONE) if name in changed)
    used = {name for root in roots for name, _ in reachable(changed, root)}
    called = set(before.relax_functions())
    return changed.without_functions(*(called - used))
