"""A training step without what it would compute in vain."""

from relaxjax.ir.module import IRModule
from relaxjax.lowering.selection import with_called
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.simplify_gradient import SimplifyGradient
from relaxjax.trainable.arguments import required_function
from relaxjax.trainable.names import ADJOINT


@pass_factory(opt_level=0)
def SimplifyAdjoint(mod: IRModule) -> IRModule:
    """Make `backbone_loss_adjoint` smaller by SimplifyGradient, and leave all else as it was."""
    required_function(mod, ADJOINT)
    simple = SimplifyGradient()(with_called(mod, [ADJOINT]))
    return mod.with_functions(simple.relax_functions())
