"""Folding factors into weights, those before them and those behind them."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.base import pass_factory

from .backward_fold_scale_axis import BackwardFoldScaleAxis
from .forward_fold_scale_axis import ForwardFoldScaleAxis


@pass_factory(opt_level=3)
def FoldScaleAxis(mod: IRModule) -> IRModule:
    """Fold the scale of an axis into the weights before it, or else into those behind it.

    Before:

        @R.function
        def main(
            x: R.Tensor((8, 4), "float32"),
            w: R.Tensor((4, 4), "float32"),
            before: R.Tensor((4,), "float32"),
            behind: R.Tensor((4,), "float32"),
        ) -> R.Tensor((8, 4), "float32"):
            scaled = R.multiply(x, before)
            y = R.matmul(scaled, w)
            out = R.multiply(y, behind)
            return out

    After `FoldScaleAxis()`:

        @R.function
        def main(
            x: R.Tensor((8, 4), "float32"),
            w: R.Tensor((4, 4), "float32"),
            before: R.Tensor((4,), "float32"),
            behind: R.Tensor((4,), "float32"),
        ) -> R.Tensor((8, 4), "float32"):
            gv = R.multiply(w, behind)
            gv1 = R.reshape(before, (4, 1))
            gv2 = R.multiply(gv, gv1)
            out = R.matmul(x, gv2)
            return out
    """
    before = None
    while mod is not before:
        before = mod
        mod = ForwardFoldScaleAxis()(BackwardFoldScaleAxis()(mod))
    return mod
