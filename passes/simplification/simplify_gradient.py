"""Making a backward program smaller without changing what it computes."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory

from .canonicalize_bindings import CanonicalizeBindings
from .dead_code_elimination import DeadCodeElimination
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .fold_constant import FoldConstant
from .join_loops import JoinLoops
from .share_product_loss import ShareProductLoss
from .simplify_expr import SimplifyExpr

_STEPS = (
    CanonicalizeBindings(),
    JoinLoops(),
    FoldConstant(),
    SimplifyExpr(),
    EliminateCommonSubexpr(),
    CanonicalizeBindings(),
)


@pass_factory(opt_level=0)
def SimplifyGradient(mod: IRModule) -> IRModule:
    """Fold constants, apply algebra, share common values and drop dead code, to the end.

    What the forward part has computed is used by the backward part, never computed again, and no
    matrix product is duplicated.
    """
    before = None
    while mod is not before:
        before = mod
        for step in _STEPS:
            mod = step(mod)
    return ShareProductLoss()(DeadCodeElimination([*mod.relax_functions()])(mod))
