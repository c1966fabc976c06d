"""Losses that a model computes itself."""

import math

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, scalar, where

from .binary import clamp, minimum, xlogy
from .magnitudes import magnitude
from .pairs import fixed
from .promotion import cast, promoted
from .reductions import vector_norm
from .shapes import shaped
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
    none = call("equal", counts, scalar(0, counts))
    mean = call("sum", losses) / where(none, scalar(1, counts), counts)
    return where(none, scalar(math.nan, mean), mean)  # whose gradient is 0


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
    return _reduce(magnitude(x - y), reduction)


def _kept(is_left: Expr, x: Expr) -> Expr:
    """What is used of a tensor, so that the rest has no square, which may be infinite."""
    return where(is_left, scalar(0, x), x)


def _lacking(x: Expr) -> Expr:
    """What is above 0, whose slope at 0 is 1, as that of `clamp` is."""
    return clamp(x, 0)


@aten("smooth_l1_loss.default")
def smooth_l1_loss(self: Expr, target: Expr, reduction: int = 1, beta: float = 1.0) -> Expr:
    if beta == 0:
        return l1_loss(self, target, reduction)
    x, y = promoted(self, target)
    size, edge = call("abs", x - y), scalar(beta, x)
    is_far = size >= edge  # what is NaN is near, so that its slope is NaN
    near = call("square", _kept(is_far, x - y)) * scalar(0.5, x) / edge
    return _reduce(where(is_far, size - scalar(0.5, x) * edge, near), reduction)


@aten("huber_loss.default")
def huber_loss(self: Expr, target: Expr, reduction: int = 1, delta: float = 1.0) -> Expr:
    x, y = promoted(self, target)
    size, edge = call("abs", x - y), scalar(delta, x)
    is_far = size > edge  # what is NaN is near, so that its slope is NaN
    near = call("square", _kept(is_far, x - y)) * scalar(0.5, x)
    far = edge * (size - scalar(0.5 * delta, x))
    return _reduce(where(is_far, far, near), reduction)


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
    softplus = _softplus(-x)
    factor = one if pos_weight is None else (pos_weight - one) * y + one
    losses = (one - y) * x + factor * softplus
    return _reduce(losses if weight is None else losses * weight, reduction)


@aten("binary_cross_entropy.default")
def binary_cross_entropy(
    self: Expr, target: Expr, weight: Expr | None = None, reduction: int = 1
) -> Expr:
    """No logarithm is below -100, as in torch; nor is what its slope is divided by below 1e-12.

    Where it is that, the loss is a number with a polynomial beside it that is 0: its derivatives
    are the slope, and the slope of the slope that torch has.
    """
    x, y = promoted(self, target)
    one, least = scalar(1, x), scalar(-100, x)
    still, room = fixed(x), scalar(1e-12, x)
    is_certain = (one - still) * still < room
    inner = where(is_certain, scalar(0.5, x), x)
    bounds = (call("maximum", call("log", p), least) for p in (still, one - still))
    on, off = (
        where(is_certain, bound, call("log", p))
        for bound, p in zip(bounds, (inner, one - inner), strict=True)
    )
    step = where(is_certain, x - still, scalar(0, x))
    slope = (still - y) / room
    bent = _bend_of_certain(still, fixed(y), room)
    moved = step * slope + scalar(0.5, x) * call("square", step) * bent
    losses = (y - one) * off - y * on + moved
    return _reduce(losses if weight is None else losses * weight, reduction)


def _bend_of_certain(x: Expr, y: Expr, room: Expr) -> Expr:
    """The second derivative of the cross entropy, not infinite by what torch has about there too.

    Torch adds the room. A sum of 1 and less than its rounding depends on how it is associated.
    """
    one = scalar(1, x)
    variance = call("maximum", x, room) * call("maximum", one - x, room)
    return (x * x - x * y - x * y + y) / call("square", variance)


@aten("kl_div.default")
def kl_div(self: Expr, target: Expr, reduction: int = 1, log_target: bool = False) -> Expr:
    x, y = promoted(self, target)
    losses = call("exp", y) * (y - x) if log_target else xlogy(y, y) - y * x
    return _reduce(losses, reduction)


def _softplus(x: Expr) -> Expr:
    """log(1 + exp(x)), finite for all x."""
    return call("log1p", call("exp", -call("abs", x))) + call("maximum", x, scalar(0, x))


@aten("soft_margin_loss.default")
def soft_margin_loss(self: Expr, target: Expr, reduction: int = 1) -> Expr:
    x, y = promoted(self, target)
    return _reduce(_softplus(-y * x), reduction)


@aten("hinge_embedding_loss.default")
def hinge_embedding_loss(self: Expr, target: Expr, margin: float = 1.0, reduction: int = 1) -> Expr:
    """Distances where the target is 1, and what they lack of a margin where it is -1."""
    x, y = promoted(self, target)
    zero, one = scalar(0, x), scalar(1, x)
    lacking = _lacking(scalar(margin, x) - x)
    apart = where(call("not_equal", y, one), lacking, zero)
    return _reduce(apart + where(call("not_equal", y, -one), x, zero), reduction)


@aten("poisson_nll_loss.default")
def poisson_nll_loss(
    input: Expr, target: Expr, log_input: bool, full: bool, eps: float, reduction: int
) -> Expr:
    x, y = promoted(input, target)
    losses = call("exp", x) - y * x if log_input else x - y * call("log", x + scalar(eps, x))
    if full:  # the terms of the target alone, by Stirling's formula where it is above 1
        is_many = y > scalar(1, y)
        many = where(is_many, y, scalar(1, y))
        turns = scalar(2 * math.pi, y) * many
        constant = many * call("log", many) - many + scalar(0.5, y) * call("log", turns)
        losses = losses + where(is_many, constant, scalar(0, y))
    return _reduce(losses, reduction)


@aten("multi_margin_loss.default")
def multi_margin_loss(
    self: Expr,
    target: Expr,
    p: int = 1,
    margin: float = 1.0,
    weight: Expr | None = None,
    reduction: int = 1,
) -> Expr:
    """What the score of the right class lacks of a margin above each other one."""
    if p not in (1, 2):
        raise ValueError(f"`p` is 1 or 2, found {p}")
    self, target = _in_rows(self), shaped(target, [-1])
    classes, axis = dims_of(self)[-1], ndim_of(self) - 1
    ids = call("expand_dims", cast(target, "int64"), ndim_of(target))
    is_right = call("equal", ids, _ids(classes))
    right = call("sum", where(is_right, self, scalar(0, self)), [axis], True)
    lacking = call("nn.relu", scalar(margin, self) - right + self)
    losses: Expr = call("square", lacking) if p == 2 else lacking
    if weight is not None:
        factor = call("sum", where(is_right, weight, scalar(0, weight)), [axis], True)
        losses = losses * factor
    others = where(is_right, scalar(0, self), losses)
    return _reduce(call("sum", others, [axis]) / number(classes, self), reduction)


@aten("multilabel_margin_loss.default")
def multilabel_margin_loss(self: Expr, target: Expr, reduction: int = 1) -> Expr:
    """What each listed class lacks of 1 above each class that is not; -1 ends the list."""
    self, target = _in_rows(self), _in_rows(target)
    axis, classes = ndim_of(self) - 1, dims_of(self)[-1]
    listed = cast(target, "int64")
    ended = call("cumsum", cast(call("less", listed, scalar(0, listed)), "int64"), axis)
    counts = call("equal", ended, scalar(0, listed))
    places = call("maximum", listed, scalar(0, listed))
    right = call("expand_dims", call("gather_elements", self, places, axis), axis + 1)
    is_right = call("equal", call("expand_dims", listed, axis + 1), _ids(classes))
    counts = call("expand_dims", counts, axis + 1)
    is_listed = call("max", cast(call("logical_and", is_right, counts), "int32"), [axis])
    others = call("logical_not", cast(is_listed, "bool"))
    pairs = call("logical_and", counts, call("expand_dims", others, axis))
    lacking = call("nn.relu", scalar(1, self) - right + call("expand_dims", self, axis))
    losses = call("sum", where(pairs, lacking, scalar(0, self)), [axis, axis + 1])
    return _reduce(losses / number(classes, self), reduction)


def _in_rows(x: Expr) -> Expr:
    """One row as the only one: programs of torch have a loss of the shape (1,) for it."""
    return shaped(x, [1, -1]) if ndim_of(x) < 2 else x


def _ids(classes: Dim) -> Expr:
    return call("arange", 0, classes, 1, "int64")


@aten("margin_ranking_loss.default")
def margin_ranking_loss(
    input1: Expr, input2: Expr, target: Expr, margin: float = 0.0, reduction: int = 1
) -> Expr:
    first, second, side, edge = promoted(input1, input2, target, float(margin))
    lacking = edge - side * (first - second)
    return _reduce(_lacking(lacking), reduction)


@aten("pairwise_distance.default")
def pairwise_distance(
    x1: Expr, x2: Expr, p: float = 2, eps: float = 1e-6, keepdim: bool = False
) -> Expr:
    first, second = promoted(x1, x2)
    apart, room = promoted(first - second, eps)
    return vector_norm(apart + room, p, [-1], keepdim)


@aten("triplet_margin_loss.default")
def triplet_margin_loss(
    anchor: Expr,
    positive: Expr,
    negative: Expr,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Expr:
    near = pairwise_distance(anchor, positive, p, eps)
    apart = pairwise_distance(anchor, negative, p, eps)
    if swap:
        apart = minimum(apart, pairwise_distance(positive, negative, p, eps))
    return _reduce(_lacking(scalar(margin, near) + near - apart), reduction)


@aten("cosine_embedding_loss.default")
def cosine_embedding_loss(
    input1: Expr, input2: Expr, target: Expr, margin: float = 0.0, reduction: int = 1
) -> Expr:
    first, second = promoted(input1, input2)
    least, zero, one = scalar(1e-12, first), scalar(0, first), scalar(1, first)
    squares = [call("sum", call("square", x), [-1]) + least for x in (first, second)]
    similarity = call("sum", first * second, [-1]) / call("sqrt", squares[0] * squares[1])
    side = cast(target, dtype_of(similarity))
    together = where(call("equal", side, one), one - similarity, zero)
    lacking = _lacking(similarity - scalar(margin, similarity))
    apart = where(call("equal", side, -one), lacking, zero)
    return _reduce(together + apart, reduction)
