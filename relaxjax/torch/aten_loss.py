"""Losses of `torch.nn` by the operators of ATen that they call, with the options that they hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Constant, Expr, Var, np_dtype
from relaxjax.ir.types import TensorType
from relaxjax.losses import CosineEmbeddingLoss, Loss
from relaxjax.losses.base import check_stretch, check_targets
from relaxjax.ops.emit import call, dims_of, dtype_of, number

from .aten import TABLE
from .aten.losses import REDUCTIONS
from .program import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class AtenLoss(Loss):
    """What torch computes where no loss of `relaxjax.losses` has its options, such as weights.

    `options` and `weights` have the names of torch's schema. The weights are part of the program.
    """

    target: str
    options: Mapping[str, Any]
    weights: Mapping[str, Array]

    def build(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        if not self.compares_classes:
            check_targets(self.loss_name, "`predictions`", predictions, targets)
        return self.computed(predictions, targets)

    def computed(self, predictions: Expr, *others: Expr) -> Expr:
        """What the operator of ATen gives for outputs of a model, and for targets."""
        dtype = np_dtype(dtype_of(predictions))
        weights = {name: Constant(array.astype(dtype)) for name, array in self.weights.items()}
        reduction = REDUCTIONS.index(self.reduction)
        rule = TABLE[self.target].rule
        found: Expr = rule(predictions, *others, reduction=reduction, **self.options, **weights)
        return found


class AtenRankingLoss(AtenLoss):
    """One of two outputs of a model, one of which is to be larger."""

    def build(  # type: ignore[override]  # a loss of several outputs has parameters for them
        self, builder: BlockBuilder, first: Var, second: Var, targets: Var
    ) -> Expr:
        check_stretch(self.loss_name, "the first outputs", first, "the second", second)
        check_targets(self.loss_name, "the first outputs", first, targets)
        return self.computed(first, second, targets)


class AtenAngleLoss(AtenLoss):
    """One of the angles between two outputs of a model."""

    def target_types(self, outputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return CosineEmbeddingLoss().target_types(outputs)

    def build(  # type: ignore[override]  # a loss of several outputs has parameters for them
        self, builder: BlockBuilder, first: Var, second: Var, targets: Var
    ) -> Expr:
        check_stretch(self.loss_name, "the first outputs", first, "the second", second)
        check_targets(self.loss_name, "the angles", call("sum", first, [-1]), targets)
        return self.computed(first, second, targets)


class AtenTripletLoss(AtenLoss):
    """One of three outputs of a model, without targets."""

    def build(  # type: ignore[override]  # a loss of several outputs has parameters for them
        self, builder: BlockBuilder, anchor: Var, positive: Var, negative: Var
    ) -> Expr:
        check_stretch(self.loss_name, "the anchors", anchor, "the positives", positive)
        check_stretch(self.loss_name, "the anchors", anchor, "the negatives", negative)
        return self.computed(anchor, positive, negative)


class AtenClassLoss(AtenLoss):
    """One of scores of classes."""

    compares_classes: ClassVar[bool] = True


class AtenListLoss(AtenLoss):
    """One of lists of classes that are right, as long as there are classes."""

    def target_types(self, outputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return (TensorType(outputs[0].shape, "int64", outputs[0].ndim),)


class AtenLikelihoodLoss(AtenClassLoss):
    """One of the logarithms of the probabilities of classes."""

    takes: ClassVar[str | None] = "log-probabilities"


class AtenProbabilityLoss(AtenLoss):
    """One of probabilities."""

    takes: ClassVar[str | None] = "probabilities"


class AtenLabelsLoss(AtenLoss):
    """One of many labels, of which each is true or not: the mean over them is the loss of a sample.

    Torch composes it of an operator of ATen.
    """

    def build(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        losses = replace(self, reduction="none")
        each = AtenLoss.build(losses, builder, predictions, targets)
        return self.reduce(call("mean", each, [-1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class AtenDivergenceLoss(AtenLoss):
    """One of the logarithms of distributions; `is_by_sample` is what torch calls "batchmean"."""

    takes: ClassVar[str | None] = "log-probabilities"

    is_by_sample: bool = False

    def build(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        if not self.is_by_sample:
            return super().build(builder, predictions, targets)
        total = replace(self, reduction="sum", is_by_sample=False)
        samples = number(dims_of(predictions)[0], predictions)
        return total.build(builder, predictions, targets) / samples
