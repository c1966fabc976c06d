"""The mean squared error."""

from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr

from .base import Loss, check_targets, counts_in_dtype_of


@dataclass(frozen=True)
class MSELoss(Loss):
    """Squared error: (predictions - targets)^2."""

    loss_name: str = field(default="mse_loss", init=False)
    num_backbone_outputs: int = field(default=1, init=False)

    def build(
        self,
        builder: BlockBuilder,
        predictions: Expr,
        targets: Expr,
        weights: Expr | None = None,
    ) -> Expr:
        check_targets(self.loss_name, "`predictions`", predictions, targets)
        targets = counts_in_dtype_of(predictions, targets, builder)
        difference = builder.emit(predictions - targets)
        return self.reduce(difference * difference, weights)
