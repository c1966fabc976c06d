"""The adjoint of a training step without what it computes in vain."""

from relaxjax.ir.module import IRModule
from relaxjax.lowering.selection import with_called
from relaxjax.passes.simplification.simplify_gradient import SimplifyGradient

from .fuse_train_step import ADJOINT


def with_simple_adjoint(mod: IRModule) -> IRModule:
    """The module with its adjoint made smaller by SimplifyGradient, all else as it was."""
    simple = SimplifyGradient()(with_called(mod, [ADJOINT]))
    return mod.with_functions(simple.relax_functions())
