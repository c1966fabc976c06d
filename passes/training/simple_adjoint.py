"""A training step without what it would compute in vain."""

from relaxjax.ir.module import IRModule
from relaxjax.lowering.selection import with_called
from relaxjax.passes.operators.legalize_ops import LegalizeOps
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings
from relaxjax.passes.simplification.eliminate_common_subexpr import EliminateCommonSubexpr
from relaxjax.passes.simplification.simplify_gradient import SimplifyGradient

from .fuse_train_step import ADJOINT


def with_simple_adjoint(mod: IRModule) -> IRModule:
    """The module with its adjoint made smaller by SimplifyGradient, all else as it was."""
    simple = SimplifyGradient()(with_called(mod, [ADJOINT]))
    return mod.with_functions(simple.relax_functions())


def legalised(mod: IRModule) -> IRModule:
    """The module in the `lax` dialect, what is common to its operators there once."""
    for one in (LegalizeOps(), EliminateCommonSubexpr(), CanonicalizeBindings()):
        mod = one(mod)
    return mod
