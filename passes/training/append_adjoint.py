"""The backward program of a loss in training."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.differentiation.gradient import Gradient
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import BACKBONE_LOSS, LOSS_SCALE

from .loss_scale import LossScale, check_loss_scale


@pass_factory(opt_level=0)
def AppendAdjoint(mod: IRModule, loss_scale: LossScale | None = None) -> IRModule:
    """Add `backbone_loss_adjoint`: the loss, and its gradients by the parameters.

    With `loss_scale`, a number or "dynamic", it takes the scale of the loss as a further parameter,
    and the module states it as the attribute `loss_scale`: half precision can hold the gradients
    then, and the optimizer that AppendOptimizer adds takes the scale out of them again.
    """
    check_loss_scale(loss_scale)
    params = Arguments.of(mod, BACKBONE_LOSS).params
    is_scaled = loss_scale is not None
    mod = Gradient(BACKBONE_LOSS, params, 0, cotangent=is_scaled, lazy=True)(mod)
    return mod.with_attr(LOSS_SCALE, loss_scale) if is_scaled else mod
