"""Cross entropy of yes-or-no questions, from probabilities or from scores."""

from dataclasses import dataclass, field
from typing import ClassVar

import jax.numpy as jnp

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var, np_dtype
from relaxjax.ops.emit import dtype_of
from relaxjax.ops.nn.activation import softplus
from relaxjax.ops.unary import clip, log

from .base import PointwiseLoss, in_dtype_of


@dataclass(frozen=True)
class BCELoss(PointwiseLoss):
    """Binary cross entropy: -(t * log p + (1 - t) * log(1 - p)) of probabilities p.

    Probabilities are kept the least distance that their dtype knows away from 0 and 1, so that the
    loss is finite. `BCEWithLogitsLoss` does without: it takes the scores before the sigmoid.
    """

    takes: ClassVar[str | None] = "probabilities"

    loss_name: str = field(default="bce_loss", init=False)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        dtype = np_dtype(dtype_of(predictions))
        least = float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]  # of ml_dtypes
        p = builder.emit(clip(predictions, least, 1 - least))
        t = in_dtype_of(predictions, targets, builder)
        return -(t * log(p) + (1 - t) * log(1 - p))


@dataclass(frozen=True)
class BCEWithLogitsLoss(PointwiseLoss):
    """Binary cross entropy of scores, whose sigmoid are the probabilities; right for any score.

    `pos_weight` weighs the positive examples: above 1 for more recall, below for more precision.
    """

    loss_name: str = field(default="bce_with_logits_loss", init=False)
    pos_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_number("pos_weight", least=0)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        t = in_dtype_of(predictions, targets, builder)
        missed: Expr = softplus(-predictions)  # -log sigmoid(x)
        if self.pos_weight != 1:
            missed = (1 + (self.pos_weight - 1) * t) * missed
        return (1 - t) * predictions + missed
