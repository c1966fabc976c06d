"""Folding factors into weights, those before them and those behind them."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.base import pass_factory

from .backward_fold_scale_axis import BackwardFoldScaleAxis
from .forward_fold_scale_axis import ForwardFoldScaleAxis


@pass_factory(opt_level=3)
def FoldScaleAxis(mod: IRModule) -> IRModule:
    """Fold the scale of an axis into the weights before it, or else into those behind it.

    Before:

        lv = R.nn.conv2d(R.multiply(x, scale), w)
        gv = R.nn.relu(R.multiply(lv, scale1))

    After:

        lv = R.multiply(R.reshape(scale1, R.shape([16, 1, 1, 1])), scale)
        gv = R.nn.relu(R.nn.conv2d(x, R.multiply(w, lv)))
    """
    before = None
    while mod is not before:
        before = mod
        mod = ForwardFoldScaleAxis()(BackwardFoldScaleAxis()(mod))
    return mod
