"""Losses that are content once an answer is right by a margin."""

from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.flags import check_flags
from relaxjax.ops.nn.activation import relu

from .base import Loss, check_targets, in_dtype_of


@dataclass(frozen=True)
class HingeLoss(Loss):
    """max(0, margin - targets * predictions) for targets of -1 and 1; squared if `squared`."""

    loss_name: str = field(default="hinge_loss", init=False)
    num_backbone_outputs: int = field(default=1, init=False)
    margin: float = 1.0
    squared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(squared=self.squared)

    def build(
        self,
        builder: BlockBuilder,
        predictions: Var,
        targets: Var,
        weights: Var | None = None,
    ) -> Expr:
        check_targets(self.loss_name, predictions, targets)
        side = in_dtype_of(predictions, targets, builder)
        lacking = builder.emit(relu(self.margin - side * predictions))
        return self.reduce(lacking * lacking if self.squared else lacking, weights)
