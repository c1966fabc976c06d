"""Losses that a model computes itself."""

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, scalar, where

from .binary import xlogy
from .promotion import cast, promoted
from .table import aten

# The numbers by which ATen calls reductions.
REDUCTIONS = ("none", "mean", "sum")


def _reduce(losses: Expr, reduction: int) -> Expr:
    name = REDUCTIONS[reduction]
    return losses if name == "none" else call(name, losses)


def _class_axis(x: Expr) -> int:
    return 1 if ndim_of(x) > 1 else 0


@aten("nll_loss_nd.default", "nll_loss.default", "nll_loss2d.default")
def nll_loss(
    self: Expr,
    target: Expr,
    weight: Expr | None = None,
    reduction: int = 1,
    ignore_index: Dim = -100,
) -> Expr:
    return call("nn.nll_loss", self, target, weight, REDUCTIONS[reduction], ignore_index)


@aten("nll_loss_forward.default", "nll_loss2d_forward.default")
def nll_loss_forward(
    self: Expr, target: Expr, weight: Expr | None, reduction: int, ignore_index: Dim
) -> tuple[Expr]:
    return (nll_loss(self, target, weight, reduction, ignore_index),)


@aten("cross_entropy_loss.default")
def cross_entropy_loss(
    self: Expr,
    target: Expr,
    weight: Expr | None = None,
    reduction: int = 1,
    ignore_index: Dim = -100,
    label_smoothing: float = 0.0,
) -> Expr:
    axis = _class_axis(self)
    log_p = call("nn.log_softmax", self, axis)
    factors = None if weight is None else _along_classes(weight, log_p)
    if ndim_of(target) == ndim_of(self):
        return _of_shares(log_p, target, factors, reduction, label_smoothing)
    picked = nll_loss(log_p, target, weight, 0 if label_smoothing else reduction, ignore_index)
    if not label_smoothing:
        return picked
    counted = call("not_equal", target, cast(ignore_index, dtype_of(target)))
    even = -call("mean", log_p if factors is None else log_p * factors, [axis])
    spread = where(counted, even, scalar(0, log_p))
    share = scalar(label_smoothing, log_p)
    losses = (scalar(1, log_p) - share) * picked + share * spread
    if REDUCTIONS[reduction] != "mean":
        return _reduce(losses, reduction)
    counts = nll_loss(-call("ones_like", log_p), target, weight, 2, ignore_index)
    return call("sum", losses) / counts


def _along_classes(weight: Expr, log_p: Expr) -> Expr:
    """The weights of the classes, as they broadcast along the axis of the classes."""
    return call("reshape", weight, [dims_of(weight)[0], *[1] * (ndim_of(log_p) - 2)])


def _of_shares(
    log_p: Expr, target: Expr, factors: Expr | None, reduction: int, label_smoothing: float
) -> Expr:
    """Of probabilities of the classes; the mean is over the samples, with weights or without."""
    axis = _class_axis(log_p)
    shares = cast(target, dtype_of(log_p))
    if label_smoothing:
        share = scalar(label_smoothing, log_p) / number(dims_of(log_p)[axis], log_p)
        shares = shares * scalar(1 - label_smoothing, log_p) + share
    losses = shares * log_p if factors is None else shares * log_p * factors
    return _reduce(-call("sum", losses, [axis]), reduction)


@aten("mse_loss.default")
def mse_loss(self: Expr, target: Expr, reduction: int = 1) -> Expr:
    x, y = promoted(self, target)
    return _reduce(call("square", x - y), reduction)


@aten("l1_loss.default")
def l1_loss(self: Expr, target: Expr, reduction: int = 1) -> Expr:
    x, y = promoted(self, target)
    return _reduce(call("abs", x - y), reduction)


@aten("smooth_l1_loss.default")
def smooth_l1_loss(self: Expr, target: Expr, reduction: int = 1, beta: float = 1.0) -> Expr:
    if beta == 0:
        return l1_loss(self, target, reduction)
    x, y = promoted(self, target)
    size, edge = call("abs", x - y), scalar(beta, x)
    near = call("square", x - y) * scalar(0.5, x) / edge
    return _reduce(where(size < edge, near, size - scalar(0.5, x) * edge), reduction)


@aten("huber_loss.default")
def huber_loss(self: Expr, target: Expr, reduction: int = 1, delta: float = 1.0) -> Expr:
    x, y = promoted(self, target)
    size, edge = call("abs", x - y), scalar(delta, x)
    near = call("square", x - y) * scalar(0.5, x)
    far = edge * (size - scalar(0.5 * delta, x))
    return _reduce(where(size <= edge, near, far), reduction)


@aten("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    self: Expr,
    target: Expr,
    weight: Expr | None = None,
    pos_weight: Expr | None = None,
    reduction: int = 1,
) -> Expr:
    x, y = promoted(self, target)
    one = scalar(1, x)
    softplus = call("log1p", call("exp", -call("abs", x))) + call("maximum", -x, scalar(0, x))
    factor = one if pos_weight is None else (pos_weight - one) * y + one
    losses = (one - y) * x + factor * softplus
    return _reduce(losses if weight is None else losses * weight, reduction)


@aten("binary_cross_entropy.default")
def binary_cross_entropy(
    self: Expr, target: Expr, weight: Expr | None = None, reduction: int = 1
) -> Expr:
    """No logarithm is below -100, as in torch."""
    x, y = promoted(self, target)
    one, least = scalar(1, x), scalar(-100, x)
    on = call("maximum", call("log", x), least)
    off = call("maximum", call("log", one - x), least)
    losses = (y - one) * off - y * on
    return _reduce(losses if weight is None else losses * weight, reduction)


@aten("kl_div.default")
def kl_div(self: Expr, target: Expr, reduction: int = 1, log_target: bool = False) -> Expr:
    x, y = promoted(self, target)
    losses = call("exp", y) * (y - x) if log_target else xlogy(y, y) - y * x
    return _reduce(losses, reduction)
