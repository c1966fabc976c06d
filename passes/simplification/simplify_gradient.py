"""Making a backward program smaller without changing what it computes."""

from itertools import cycle

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.kinds import Pass

from .canonicalize_bindings import CanonicalizeBindings
from .dead_code_elimination import DeadCodeElimination
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .fold_constant import FoldConstant
from .join_loops import JoinLoops
from .share_product_loss import ShareProductLoss
from .simplify_expr import SimplifyExpr

_FOLD, _SIMPLIFY = FoldConstant(), SimplifyExpr()
_STEPS = (CanonicalizeBindings(), JoinLoops(), _FOLD, _SIMPLIFY, EliminateCommonSubexpr())
# They go on until they find nothing more: what they give, they leave as it is.
_TO_THEIR_END = (_FOLD, _SIMPLIFY)


@pass_factory(opt_level=0)
def SimplifyGradient(mod: IRModule) -> IRModule:
    """Fold constants, apply algebra, share common values and drop dead code, to the end.

    What the forward part has computed is used by the backward part, never computed again, and no
    matrix product is duplicated.
    """
    left: dict[Pass, IRModule] = {}  # what each step has nothing to do with
    for step in cycle(_STEPS):
        if left.get(step) is mod:
            break
        before, mod = mod, step(mod)
        if mod is before or step in _TO_THEIR_END:
            left[step] = mod
    return ShareProductLoss()(DeadCodeElimination([*mod.relax_functions()])(mod))
