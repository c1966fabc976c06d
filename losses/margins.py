"""Losses that are content once an answer is right by a margin."""

import math
from dataclasses import dataclass, field

import numpy as np

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var, np_dtype
from relaxjax.ops.binary import maximum, minimum
from relaxjax.ops.emit import dtype_of, narrow, scalar
from relaxjax.ops.nn.activation import relu
from relaxjax.ops.statistical import max, sum
from relaxjax.ops.unary import abs, sqrt

from .base import Loss, PointwiseLoss, check_stretch, check_targets, in_dtype_of, widened


@dataclass(frozen=True)
class HingeLoss(PointwiseLoss):
    """max(0, margin - targets * predictions) for targets of -1 and 1; squared if `squared`."""

    loss_name: str = field(default="hinge_loss", init=False)
    margin: float = 1.0
    squared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(squared=self.squared)
        self._set_number("margin")

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        side = in_dtype_of(predictions, targets, builder)
        lacking = builder.emit(relu(self.margin - side * predictions))
        return lacking * lacking if self.squared else lacking


@dataclass(frozen=True)
class MarginRankingLoss(Loss):
    """max(0, margin - targets * (first - second)) for two outputs of a model.

    Where a target is 1 the first one is to be larger by a margin, and where it is -1 the second.
    """

    loss_name: str = field(default="margin_ranking_loss", init=False)
    num_backbone_outputs: int = field(default=2, init=False)
    margin: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_number("margin")

    def build(
        self,
        builder: BlockBuilder,
        first: Var,
        second: Var,
        targets: Var,
        weights: Var | None = None,
    ) -> Expr:
        check_stretch(self.loss_name, "the first outputs", first, "the second", second)
        check_targets(self.loss_name, "the first outputs", first, targets)
        side = in_dtype_of(first, targets, builder)
        return self.reduce(relu(self.margin - side * (first - second)), weights)


@dataclass(frozen=True)
class TripletMarginLoss(Loss):
    """max(0, margin + |anchor - positive| - |anchor - negative|) for three outputs of a model.

    The distances are those of `distance`, between vectors along the last axis. With `swap`, the
    negative is as far away as it is from the nearer one of the anchor and the positive.
    """

    loss_name: str = field(default="triplet_margin_loss", init=False)
    num_backbone_outputs: int = field(default=3, init=False)
    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(swap=self.swap)
        self._set_number("margin")
        self._set_number("p", above=0)
        self._set_number("eps", least=0)

    def build(
        self,
        builder: BlockBuilder,
        anchor: Var,
        positive: Var,
        negative: Var,
        weights: Var | None = None,
    ) -> Expr:
        check_stretch(self.loss_name, "the anchors", anchor, "the positives", positive)
        check_stretch(self.loss_name, "the anchors", anchor, "the negatives", negative)

        def between(one: Var, other: Var) -> Expr:
            return distance(builder, one, other, self.p, self.eps)

        apart = between(anchor, negative)
        if self.swap:
            apart = minimum(apart, between(positive, negative))
        losses = relu(self.margin + between(anchor, positive) - apart)
        return self.reduce(narrow(losses, anchor), weights)


def distance(builder: BlockBuilder, a: Expr, b: Expr, p: float, eps: float) -> Expr:
    """The p-th root of the sum of |a - b + eps| ** p, in float32 for half precision.

    `eps` keeps equal vectors apart; where it does not, the derivative at zero is zero.
    """
    apart = builder.emit(abs(widened(builder, a) - widened(builder, b) + eps))
    if p == 1:
        return sum(apart, axis=-1)
    if math.isinf(p):
        return max(apart, axis=-1)
    total = builder.emit(sum(apart * apart if p == 2 else apart**p, axis=-1))
    least = scalar(float(np.finfo(np_dtype(dtype_of(total))).tiny), total)
    total = builder.emit(maximum(total, least))
    return sqrt(total) if p == 2 else total ** (1 / p)
