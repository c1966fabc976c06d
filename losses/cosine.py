"""Losses by the angle between vectors, which lie along the last axis."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.types import TensorType
from relaxjax.ops.binary import greater, maximum
from relaxjax.ops.emit import narrow, scalar
from relaxjax.ops.nn.activation import relu
from relaxjax.ops.search import where
from relaxjax.ops.statistical import sum
from relaxjax.ops.unary import sqrt

from .base import Loss, PointwiseLoss, check_targets, widened

_EPSILON = 1e-8  # below this length a vector counts as having no direction


@dataclass(frozen=True)
class CosineLoss(PointwiseLoss):
    """1 - cos of the angle between `predictions` and `targets`."""

    loss_name: str = field(default="cosine_loss", init=False)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        return 1 - cosine(builder, predictions, targets)


@dataclass(frozen=True)
class CosineEmbeddingLoss(Loss):
    """Draws two outputs of a model together where the target is 1, and apart where it is -1.

    The loss is 1 - cos of the angle between them, or else max(0, cos - margin).
    """

    loss_name: str = field(default="cosine_embedding_loss", init=False)
    num_backbone_outputs: int = field(default=2, init=False)
    margin: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_number("margin")

    def target_types(self, outputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        first = outputs[0]
        shape = None if first.dims is None else first.dims[:-1]
        return (TensorType(shape, first.dtype, max(first.ndim - 1, -1)),)

    def build(
        self,
        builder: BlockBuilder,
        first: Expr,
        second: Expr,
        targets: Expr,
        weights: Expr | None = None,
    ) -> Expr:
        similarity = builder.emit(cosine(builder, first, second))
        check_targets(self.loss_name, "the angles", similarity, targets)
        together = builder.emit(greater(targets, scalar(0, targets)))
        losses = where(together, 1 - similarity, relu(similarity - self.margin))
        return self.reduce(losses, weights)


def cosine(builder: BlockBuilder, a: Expr, b: Expr) -> Expr:
    """The cosine of the angle between vectors; 0 where one has no direction.

    In float32 for half precision, which has neither the squares of lengths nor of `_EPSILON`.
    """
    given, a, b = a, widened(builder, a), widened(builder, b)
    squares = builder.emit(sum(a * a, axis=-1) * sum(b * b, axis=-1))
    lengths = sqrt(maximum(squares, scalar(_EPSILON**2, squares)))
    return narrow(sum(a * b, axis=-1) / lengths, given)
