"""Cross entropy between the scores of a model and the true classes."""

from dataclasses import dataclass, field
from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ops.binary import equal, not_equal
from relaxjax.ops.creation import ones_like
from relaxjax.ops.emit import dims_of, number, scalar
from relaxjax.ops.nn.activation import log_softmax
from relaxjax.ops.nn.loss import nll_loss
from relaxjax.ops.reshaping import expand_dims
from relaxjax.ops.search import argmax, where
from relaxjax.ops.statistical import mean, sum
from relaxjax.ops.unary import abs

from .base import Loss, class_axis, in_dtype_of, weighted_mean


@dataclass(frozen=True)
class CrossEntropyLoss(Loss):
    """Cross entropy, -log softmax(predictions) at the true class.

    `predictions` are scores of shape (N, C, d1, ...) or (C,). `targets` are class ids of shape
    (N, d1, ...), or of the shape of the predictions: one-hot vectors or probabilities of the
    classes. `weights` of shape (C,) weigh the classes, and "mean" is the weighted mean. Targets of
    the class `ignore_index` count for nothing. `label_smoothing` is the share of each target that
    is spread evenly over all classes, so that no score is driven to infinity.
    """

    compares_classes: ClassVar[bool] = True

    loss_name: str = field(default="cross_entropy_loss", init=False)
    num_backbone_outputs: int = field(default=1, init=False)
    ignore_index: int = -100
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_ignored(self.ignore_index)
        smoothing: Any = self.label_smoothing
        if not isinstance(smoothing, Real) or not 0 <= float(smoothing) < 1:
            raise ValueError(
                f"`label_smoothing` must be at least 0 and below 1, but it is {smoothing!r}"
            )

    def build(
        self, builder: BlockBuilder, predictions: Var, targets: Var, weights: Var | None = None
    ) -> Expr:
        log_p = builder.emit(log_softmax(predictions, axis=class_axis(predictions)))
        if self._are_ids(predictions, targets):
            return self._from_ids(builder, log_p, targets, weights)
        if self.ignore_index < 0:
            return self._from_probabilities(builder, log_p, targets, weights)
        ids = self._ids(builder, predictions, targets)
        return self._from_ids(builder, log_p, ids, weights)

    def _from_ids(self, builder: BlockBuilder, log_p: Var, ids: Var, weights: Var | None) -> Expr:
        if not self.label_smoothing:
            return nll_loss(log_p, ids, weights, self.reduction, self.ignore_index)
        picked = nll_loss(log_p, ids, weights, "none", self.ignore_index)
        factors = _along_classes(builder, weights, log_p) if weights is not None else None
        spread = -mean(log_p if factors is None else log_p * factors, axis=class_axis(log_p))
        counted = not_equal(ids, scalar(self.ignore_index, ids))
        spread = where(counted, spread, scalar(0, log_p))
        losses = (1 - self.label_smoothing) * picked + self.label_smoothing * spread
        if self.reduction != "mean":
            return self.reduce(losses)
        counts = nll_loss(-ones_like(log_p), ids, weights, "none", self.ignore_index)
        none = equal(sum(abs(counts)), scalar(0, counts))
        found = weighted_mean(losses, where(none, ones_like(counts), counts))
        return where(none, scalar(nan, found), found)  # whose gradient is 0

    def _are_ids(self, predictions: Var, targets: Var) -> bool:
        """Whether the targets are class ids; else they must have the shape of the predictions."""
        scores, truth = predictions.ty, targets.ty
        if not isinstance(scores, TensorType) or not isinstance(truth, TensorType):
            return True  # nll_loss says what is wrong
        if scores.ndim == -1 or truth.ndim != scores.ndim:
            return True
        shapes = zip(scores.dims or (), truth.dims or (), strict=False)
        if any(can_prove_different(left, right) for left, right in shapes):
            raise TypeError(
                f"{self.loss_name}: `{targets.name}` must be class ids, of one dimension less "
                f"than `{predictions.name}`, or have its very shape (one-hot vectors or "
                f"probabilities), but it is of type {truth}, and `{predictions.name}` of {scores}"
            )
        return False

    def _from_probabilities(
        self, builder: BlockBuilder, log_p: Var, targets: Var, weights: Var | None
    ) -> Expr:
        axis = class_axis(log_p)
        negative = builder.emit(-log_p)
        shares = in_dtype_of(log_p, targets, builder)
        losses = builder.emit(negative * self._smoothed(shares, axis))
        if weights is not None:
            weights = _along_classes(builder, weights, log_p)
            losses = builder.emit(losses * weights)
        match self.reduction:
            case "sum":
                return sum(losses)
            case "none":
                return sum(losses, axis=axis)
            case _ if weights is None:
                return mean(sum(losses, axis=axis))
            case _:
                return weighted_mean(losses, shares * weights)

    def _smoothed(self, shares: Var, axis: int) -> Expr:
        if not self.label_smoothing:
            return shares
        share = self.label_smoothing / number(dims_of(shares)[axis], shares)
        return (1 - self.label_smoothing) * shares + share

    def _ids(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Var:
        """The class ids of one-hot targets, for `ignore_index` to pick out."""
        assert isinstance(targets.ty, TensorType)
        if is_float(targets.ty.dtype):
            raise TypeError(
                f"{self.loss_name}: `ignore_index` = {self.ignore_index} needs class ids or "
                f"one-hot targets of an integer dtype, but `{targets.name}` is of type {targets.ty}"
            )
        return builder.emit(argmax(targets, axis=class_axis(predictions)))


@dataclass(frozen=True)
class NLLLoss(Loss):
    """Negative log-likelihood: the targets' classes picked out of log-probabilities.

    `CrossEntropyLoss` takes scores instead. Shapes, `weights`, "mean" and `ignore_index` are as
    there, with class ids for targets.
    """

    compares_classes: ClassVar[bool] = True
    takes: ClassVar[str | None] = "log-probabilities"

    loss_name: str = field(default="nll_loss", init=False)
    num_backbone_outputs: int = field(default=1, init=False)
    ignore_index: int = -100

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_ignored(self.ignore_index)

    def build(
        self, builder: BlockBuilder, predictions: Var, targets: Var, weights: Var | None = None
    ) -> Expr:
        return nll_loss(predictions, targets, weights, self.reduction, self.ignore_index)


@dataclass(frozen=True)
class CategoricalCrossEntropyLoss(CrossEntropyLoss):
    """Cross entropy for targets that are one-hot vectors or probabilities of the classes.

    The same as `CrossEntropyLoss` for targets of the shape of the predictions: "mean" is the mean
    over the samples, and "none" gives one loss a sample. (TVM's divides by samples times classes,
    unless `ignore_index` is set, and its "none" gives one number for each sample and class.)
    """

    loss_name: str = field(default="categorical_cross_entropy_loss", init=False)

    def _are_ids(self, predictions: Var, targets: Var) -> bool:
        if not super()._are_ids(predictions, targets):
            return False
        raise TypeError(
            f"{self.loss_name}: `{targets.name}` must be one-hot vectors or probabilities in the "
            f"shape of `{predictions.name}`, which is of type {predictions.ty}, but it is of type "
            f"{targets.ty}; CrossEntropyLoss takes class ids"
        )


def _check_ignored(value: Any) -> None:
    """Raise where what is to be ignored can be no class."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"`ignore_index` must be an id of a class, but it is {value!r}")


def _along_classes(builder: BlockBuilder, weights: Var, log_p: Var) -> Var:
    """The weights of the classes in a shape that broadcasts along the axis of the classes."""
    assert isinstance(log_p.ty, TensorType)
    behind = log_p.ty.ndim - 2
    if behind <= 0:
        return weights
    return builder.emit(expand_dims(weights, list(range(1, behind + 1))))
