"""The L1 loss."""

from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr
from relaxjax.ops.unary import abs

from .base import Loss, check_targets, counts_in_dtype_of


@dataclass(frozen=True)
class L1Loss(Loss):
    """Absolute error: |predictions - targets|."""

    loss_name: str = field(default="l1_loss", init=False)
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
        return self.reduce(abs(predictions - targets), weights)
