"""The loss of models that tell how sure they are."""

import math
from dataclasses import dataclass, field

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ops.binary import maximum
from relaxjax.ops.emit import call, scalar
from relaxjax.ops.unary import log

from .base import Loss, check_stretch, check_targets, counts_in_dtype_of


@dataclass(frozen=True)
class GaussianNLLLoss(Loss):
    """-log of the density of the targets under normal distributions, by means and variances.

    (log(variance) + (predictions - targets)^2 / variance) / 2, and with `full` the constant
    log(2 pi) / 2 too. A variance counts as no less than `eps`, and its derivative as that of `eps`.
    """

    loss_name: str = field(default="gaussian_nll_loss", init=False)
    num_backbone_outputs: int = field(default=2, init=False)
    full: bool = False
    eps: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(full=self.full)
        self._set_number("eps", above=0)

    def build(
        self,
        builder: BlockBuilder,
        predictions: Var,
        variances: Var,
        targets: Var,
        weights: Var | None = None,
    ) -> Expr:
        check_targets(self.loss_name, "`predictions`", predictions, targets)
        check_stretch(self.loss_name, "`predictions`", predictions, "`variances`", variances)
        least = builder.emit(maximum(variances, scalar(self.eps, variances)))
        lift = builder.emit(call("grad.no_grad", least - variances))
        variance = builder.emit(variances + lift)
        error = builder.emit(predictions - counts_in_dtype_of(predictions, targets, builder))
        losses = 0.5 * (log(variance) + error * error / variance)
        if self.full:
            losses = losses + 0.5 * math.log(2 * math.pi)
        return self.reduce(losses, weights)
