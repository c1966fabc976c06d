"""Folding factors into weights, those before them and those behind them."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory

from .backward_fold_scale_axis import BackwardFoldScaleAxis
from .forward_fold_scale_axis import ForwardFoldScaleAxis


@pass_factory(opt_level=3)
def FoldScaleAxis(mod: IRModule) -> IRModule:
    """Fold the scale of an axis into the weights before it, or else into those behind it."""
    before = None
    while mod is not before:
        before = mod
        mod = ForwardFoldScaleAxis()(BackwardFoldScaleAxis()(mod))
    return mod
