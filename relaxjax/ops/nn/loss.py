"""Losses on log-probabilities, and the backward operator of the one that picks classes."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType
from relaxjax.ir.wording import counted
from relaxjax.ops.arrays import as_places, widened
from relaxjax.ops.cost_rules import per_input
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import as_places as places_of
from relaxjax.ops.emit import call, dims_of, narrow, ndim_of, number, scalar, where, wide
from relaxjax.ops.index import require_integers
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import (
    common_dtype,
    common_vdevice,
    dims_text,
    require_adjoint,
    require_choice,
    require_ndim,
    require_numbers,
)

_REDUCTIONS = ("none", "mean", "sum")


def _cross_entropy(predictions: Any, labels: Any) -> Any:
    total = -jnp.sum(widened(predictions) * widened(labels))
    if predictions.ndim > 1:
        total = total / jnp.asarray(predictions.shape[0]).astype(total.dtype)
    return total.astype(predictions.dtype)


def _cross_entropy_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    g = wide(g)
    if ndim_of(x) > 1:
        g = g / number(dims_of(x)[0], g)
    return narrow(-g * wide(y), x), narrow(-g * wide(x), x)


@op(
    "relax.nn.cross_entropy_with_logits",
    lower=_cross_entropy,
    gradient=_cross_entropy_gradient,
    fusion="reduction",
    cost=per_input(2),
)
def cross_entropy_with_logits(predictions: TensorType, labels: TensorType) -> TensorType:
    """Cross entropy of log-probabilities and label distributions: -sum(x * y), over N if batched.

    `predictions` are log-probabilities, such as of `log_softmax`.
    """
    if -1 not in (predictions.ndim, labels.ndim) and predictions.ndim != labels.ndim:
        raise OpError(
            "`predictions` and `labels` must have the same rank, "
            f"found {predictions.ndim} and {labels.ndim}"
        )
    shapes = predictions.dims or (), labels.dims or ()
    if any(map(can_prove_different, *shapes)):
        raise OpError(
            "`predictions` and `labels` must have the same shape, "
            f"found {dims_text(shapes[0])} and {dims_text(shapes[1])}"
        )
    dtype = common_dtype(predictions=predictions, labels=labels)
    return TensorType((), dtype, vdevice=common_vdevice(predictions, labels))


def class_axis(predictions: Any) -> int:
    return 1 if predictions.ndim > 1 else 0


def sample_weights(targets: Any, weights: Any, ignore_index: int, dtype: Any) -> Any:
    """The weight of each sample's class, 0 where the class is to be ignored."""
    targets = as_places(targets)
    counted = targets != jnp.asarray(ignore_index, targets.dtype)
    if weights is None:
        return counted.astype(dtype)
    taken = jnp.take(weights, targets, mode="clip").astype(dtype)
    return jnp.where(counted, taken, jnp.zeros((), dtype))


def counted_total(weight: Any) -> Any:
    """What a mean's adjoint is divided by: where no sample counts, each has the gradient 0."""
    total = jnp.sum(weight)
    return jnp.where(jnp.any(weight != 0), total, jnp.ones_like(total))


def counted_times(weight: Any, values: Any) -> Any:
    """Products with samples' weights: 0 where a sample does not count, even of NaN."""
    products = weight * values
    return jnp.where(weight == 0, jnp.zeros_like(products), products)


def reduced(losses: Any, weight: Any, reduction: str) -> Any:
    """The losses of samples as one number, or as they are for "none"."""
    if reduction == "none":
        return losses
    total = jnp.sum(losses)
    return total / jnp.sum(weight) if reduction == "mean" else total


def _nll_loss(
    predictions: Any, targets: Any, weights: Any, reduction: str, ignore_index: int
) -> Any:
    axis = class_axis(predictions)
    places = jnp.expand_dims(as_places(targets), axis)
    picked = widened(jnp.take_along_axis(predictions, places, axis, mode="clip").squeeze(axis))
    weight = sample_weights(targets, weights, ignore_index, picked.dtype)
    return reduced(counted_times(weight, -picked), weight, reduction).astype(predictions.dtype)


def _nll_loss_gradient(g: Expr, z: Expr, *args: Any, **attrs: Any) -> tuple[Expr | None, ...]:
    backward = call("grad.nll_loss_backward", g, *args, **attrs)
    return backward, None, weights_gradient(g, z, *args, **attrs)


def weights_gradient(
    g: Expr,
    z: Expr,
    predictions: Expr,
    targets: Expr,
    weights: Expr | None,
    reduction: str,
    ignore_index: int,
) -> Expr | None:
    """The sum over the samples of a class of what its weight multiplies."""
    if weights is None:
        return None
    targets = places_of(targets)
    plain: Expr = call("nn.nll_loss", predictions, targets, None, "none", ignore_index)
    counted = call("not_equal", targets, scalar(ignore_index, targets))
    if reduction == "mean":
        weight = call("take", weights, targets, axis=0, mode="clip")
        taken = where(counted, weight, scalar(0, weight))
        total, size = call("sum", taken), call("sum", call("abs", taken))
        total = where(call("equal", size, scalar(0, size)), scalar(1, total), total)
        plain = where(counted, plain - z, scalar(0, plain)) / total
    if reduction != "none":
        g = call("broadcast_to", g, dims_of(targets))
    last = number(dims_of(weights)[0], targets) - 1
    places = call("minimum", call("maximum", targets, scalar(0, targets)), last)
    found = where(counted, g * plain, scalar(0, plain))
    return call("grad.take_backward", found, weights, places, axis=0)


@op(
    "relax.nn.nll_loss",
    facts={"class_ids": "targets"},
    lower=_nll_loss,
    gradient=_nll_loss_gradient,
    fusion="reduction",
    cost=LOWERED,
)
def nll_loss(
    predictions: TensorType,
    targets: TensorType,
    weights: TensorType | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> TensorType:
    """Negative log-likelihood of the classes `targets`: -w[t] * x[t], of each sample.

    `predictions` are log-probabilities of shape (N, C, ...) or (C,), `targets` of shape (N, ...)
    or (). The mean is over the weights of the samples that count; `ignore_index` does not count.
    """
    return loss_type(predictions, targets, weights, reduction)


def loss_type(
    predictions: TensorType, targets: TensorType, weights: TensorType | None, reduction: str
) -> TensorType:
    require_choice("reduction", reduction, _REDUCTIONS)
    require_numbers("predictions", predictions)
    require_integers(targets, "targets")
    losses = _losses_dims(predictions, targets)
    _require_classes(predictions, weights)
    dtype = (
        predictions.dtype
        if weights is None
        else common_dtype(predictions=predictions, weights=weights)
    )
    if reduction != "none":
        return TensorType((), dtype, vdevice=predictions.vdevice)
    ndim = targets.ndim if predictions.ndim < 0 else max(predictions.ndim - 1, 0)
    return TensorType(losses, dtype, ndim, predictions.vdevice)


def _losses_dims(predictions: TensorType, targets: TensorType) -> Sequence[Dim] | None:
    """The shape of the samples, where either argument lets it be known."""
    ndim = predictions.ndim
    if ndim == 0:
        raise OpError("`predictions` must have a dimension for the classes, but it is a scalar")
    if -1 not in (ndim, targets.ndim) and targets.ndim != ndim - 1:
        raise OpError(
            f"`targets` must have {counted(ndim - 1, 'dimension')}, one less than `predictions`, "
            f"found {targets.ndim}"
        )
    if predictions.dims is None:
        return targets.dims
    samples = (*predictions.dims[:1], *predictions.dims[2:]) if ndim > 1 else ()
    if targets.dims is not None and any(map(can_prove_different, samples, targets.dims)):
        raise OpError(
            f"`targets` must have shape {dims_text(samples)} beside `predictions` of shape "
            f"{dims_text(predictions.dims)}, whose classes are along axis "
            f"{class_axis(predictions)}, found {dims_text(targets.dims)}"
        )
    return samples


def _require_classes(predictions: TensorType, weights: TensorType | None) -> None:
    if weights is None:
        return
    require_ndim("weights", weights, 1)
    if predictions.dims is None or weights.dims is None:
        return
    classes = predictions.dims[class_axis(predictions)]
    if can_prove_different(classes, weights.dims[0]):
        raise OpError(
            f"`weights` must have an element for each of the {classes} classes, "
            f"found {weights.dims[0]}"
        )


def _nll_loss_backward(
    output_grad: Any,
    predictions: Any,
    targets: Any,
    weights: Any,
    reduction: str,
    ignore_index: int,
) -> Any:
    """By comparison with each class, which fuses, where a scatter would not."""
    axis, g, targets = class_axis(predictions), widened(output_grad), as_places(targets)
    weight = sample_weights(targets, weights, ignore_index, g.dtype)
    scale = counted_times(weight, -g)
    if reduction == "mean":
        scale = scale / counted_total(weight)
    scale = scale.astype(predictions.dtype)
    classes = lax.broadcasted_iota(targets.dtype, predictions.shape, axis)
    hit = classes == jnp.expand_dims(targets, axis)
    return jnp.where(hit, jnp.expand_dims(scale, axis), jnp.zeros_like(predictions))


def _nll_loss_backward_gradient(
    g: Expr, y: Expr, output_grad: Expr, predictions: Expr, *rest: Any, **attrs: Any
) -> tuple[Expr | None, ...]:
    """It is linear in `output_grad`, and the loss itself is its transpose."""
    loss = call("nn.nll_loss", g, *rest, **attrs)
    return loss, None, None, weights_gradient(output_grad, loss, g, *rest, **attrs)


@op(
    "relax.grad.nll_loss_backward",
    lower=_nll_loss_backward,
    gradient=_nll_loss_backward_gradient,
    fusion="broadcast",
    cost=LOWERED,
)
def nll_loss_backward(
    output_grad: TensorType,
    predictions: TensorType,
    targets: TensorType,
    weights: TensorType | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> TensorType:
    """The adjoint of the predictions of nll_loss: -w[t] * g at each sample's class t, else 0."""
    require_adjoint(output_grad, loss_type(predictions, targets, weights, reduction))
    return predictions
