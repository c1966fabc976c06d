"""Losses by the distance between predictions and targets."""

from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ops.binary import minimum
from relaxjax.ops.emit import scalar
from relaxjax.ops.unary import abs

from .base import PointwiseLoss, counts_in_dtype_of


@dataclass(frozen=True)
class L1Loss(PointwiseLoss):
    """Absolute error: |predictions - targets|."""

    loss_name: str = field(default="l1_loss", init=False)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        return abs(predictions - counts_in_dtype_of(predictions, targets, builder))


@dataclass(frozen=True)
class MSELoss(PointwiseLoss):
    """Squared error: (predictions - targets)^2."""

    loss_name: str = field(default="mse_loss", init=False)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        targets = counts_in_dtype_of(predictions, targets, builder)
        difference = builder.emit(predictions - targets)
        return difference * difference


@dataclass(frozen=True)
class HuberLoss(PointwiseLoss):
    """With d = |predictions - targets|: d^2 / 2 up to `delta`, and delta * (d - delta / 2) beyond.

    Beyond `delta` a single element pulls no harder, so that outliers do not rule.
    """

    loss_name: str = field(default="huber_loss", init=False)
    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_number("delta", above=0)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        targets = counts_in_dtype_of(predictions, targets, builder)
        distance = builder.emit(abs(predictions - targets))
        near = builder.emit(minimum(distance, scalar(self.delta, distance)))
        return builder.emit(0.5 * (near * near) + self.delta * (distance - near))


@dataclass(frozen=True)
class SmoothL1Loss(HuberLoss):
    """`HuberLoss` divided by `delta`: its slope is 1 beyond `delta`, whatever that is."""

    loss_name: str = field(default="smooth_l1_loss", init=False)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        return super().losses(builder, predictions, targets) / self.delta
