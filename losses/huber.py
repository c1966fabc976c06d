"""Losses that are quadratic near zero and linear far from it."""

from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr
from relaxjax.ops.binary import minimum
from relaxjax.ops.emit import scalar
from relaxjax.ops.unary import abs

from .base import Loss, check_targets, counts_in_dtype_of


@dataclass(frozen=True)
class HuberLoss(Loss):
    """With d = |predictions - targets|: d^2 / 2 up to `delta`, and delta * (d - delta / 2) beyond.

    Beyond `delta` a single element pulls no harder, so that outliers do not rule.
    """

    loss_name: str = field(default="huber_loss", init=False)
    num_backbone_outputs: int = field(default=1, init=False)
    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_number("delta", above=0)

    def build(
        self,
        builder: BlockBuilder,
        predictions: Expr,
        targets: Expr,
        weights: Expr | None = None,
    ) -> Expr:
        check_targets(self.loss_name, "`predictions`", predictions, targets)
        targets = counts_in_dtype_of(predictions, targets, builder)
        return self.reduce(self.losses(builder, predictions, targets), weights)

    def losses(self, builder: BlockBuilder, predictions: Expr, targets: Expr) -> Expr:
        distance = builder.emit(abs(predictions - targets))
        near = builder.emit(minimum(distance, scalar(self.delta, distance)))
        return builder.emit(0.5 * (near * near) + self.delta * (distance - near))


@dataclass(frozen=True)
class SmoothL1Loss(HuberLoss):
    """`HuberLoss` divided by `delta`: its slope is 1 beyond `delta`, whatever that is."""

    loss_name: str = field(default="smooth_l1_loss", init=False)

    def losses(self, builder: BlockBuilder, predictions: Expr, targets: Expr) -> Expr:
        return super().losses(builder, predictions, targets) / self.delta
