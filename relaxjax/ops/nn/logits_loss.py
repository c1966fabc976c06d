"""The negative log-likelihood of classes straight from scores, and its adjoint in closed form.

Scores of many classes are the largest tensor of a language model. Through `log_softmax` and
`nll_loss` their logarithms are written out, forward and backward; here nothing of their size is
but the adjoint itself (`benchmarks/operators.py`, cross_entropy).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import as_places, widened
from relaxjax.ops.cost_rules import per_input
from relaxjax.ops.declare import op
from relaxjax.ops.emit import call
from relaxjax.ops.platform import by_platform
from relaxjax.ops.shapes import require_adjoint
from relaxjax.ops.traced import traced_gradient
from relaxjax.ops.unary import require_float

from .loss import (
    class_axis,
    counted_times,
    counted_total,
    loss_type,
    reduced,
    sample_weights,
    weights_gradient,
)

# So many scores are worth a kernel of their own for those that are picked.
_MANY = 2**18


def _log_total(logits: Any, axis: int) -> Any:
    """The logarithm of the sum of the powers along an axis, which is kept."""
    top = lax.stop_gradient(jnp.max(logits, axis, keepdims=True))
    return top + jnp.log(jnp.sum(jnp.exp(logits - top), axis, keepdims=True))


def _read_at_once(picked: Any, logits: Any) -> Any:
    """What was picked of many scores, with bytes of its own, so that it is picked by itself.

    XLA would pick it where it is used, behind the powers of the scores, which could not take the
    memory of the scores then. It makes a scatter by itself.
    """
    if not isinstance(logits.size, int) or logits.size < _MANY:
        return picked
    flat = picked.reshape(-1)
    held = lax.scatter(
        jnp.zeros_like(flat),
        lax.broadcasted_iota(jnp.int32, (flat.size, 1), 0),
        flat,
        lax.ScatterDimensionNumbers((), (0,), (0,)),
        indices_are_sorted=True,
        unique_indices=True,
        mode="promise_in_bounds",
    )
    return held.reshape(picked.shape)


def loss_of_scores(
    logits: Any,
    targets: Any,
    weights: Any,
    reduction: str,
    ignore_index: int,
    read: Callable[[Any, Any], Any] = lambda picked, logits: picked,
) -> Any:
    axis, wide, targets = class_axis(logits), widened(logits), as_places(targets)
    weight = sample_weights(targets, weights, ignore_index, wide.dtype)
    places = jnp.expand_dims(targets, axis)
    picked = read(jnp.take_along_axis(wide, places, axis, mode="clip"), wide)
    apart = (_log_total(wide, axis) - picked).squeeze(axis)
    return reduced(counted_times(weight, apart), weight, reduction).astype(logits.dtype)


def _gradient(
    g: Expr, z: Expr, logits: Expr, targets: Expr, weights: Expr | None, **attrs: Any
) -> tuple[Expr | None, ...]:
    backward = call("grad.softmax_nll_loss_backward", g, logits, targets, weights, **attrs)
    if weights is None:
        return backward, None, None
    predictions = call("nn.log_softmax", logits, class_axis(logits.ty))
    return backward, None, weights_gradient(g, z, predictions, targets, weights, **attrs)


@op(
    "relax.nn.softmax_nll_loss",
    facts={"class_ids": "targets"},
    lower=by_platform(loss_of_scores, cpu=partial(loss_of_scores, read=_read_at_once)),
    gradient=_gradient,
    fusion="reduction",
    cost=per_input(4),  # the largest, the difference, its power, the sum
)
def softmax_nll_loss(
    logits: TensorType,
    targets: TensorType,
    weights: TensorType | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> TensorType:
    """As nll_loss of log_softmax over the classes: w[t] * (log(sum(exp(x))) - x[t]).

    `SimplifyExpr` puts it in their place.
    """
    require_float(logits, "logits")
    return loss_type(logits, targets, weights, reduction)


def adjoint_of_scores(
    output_grad: Any, logits: Any, targets: Any, weights: Any, reduction: str, ignore_index: int
) -> Any:
    """The softmax, less 1 at the target, times what the sample counts."""
    axis, wide, targets = class_axis(logits), widened(logits), as_places(targets)
    weight = sample_weights(targets, weights, ignore_index, wide.dtype)
    scale = counted_times(weight, output_grad.astype(wide.dtype))
    if reduction == "mean":
        scale = scale / counted_total(weight)
    classes = lax.broadcasted_iota(targets.dtype, logits.shape, axis)
    hit = (classes == jnp.expand_dims(targets, axis)).astype(wide.dtype)
    powers = jnp.exp(wide - jnp.max(wide, axis, keepdims=True))
    softmax = powers / jnp.sum(powers, axis, keepdims=True)  # exact to rounding for any scores
    return ((softmax - hit) * jnp.expand_dims(scale, axis)).astype(logits.dtype)


@op(
    "relax.grad.softmax_nll_loss_backward",
    lower=adjoint_of_scores,
    gradient=traced_gradient("relax.grad.softmax_nll_loss_backward"),
    fusion="reduction",
    cost=per_input(8),  # the loss's four; their logarithm off, a power, a comparison, a product
)
def softmax_nll_loss_backward(
    output_grad: TensorType,
    logits: TensorType,
    targets: TensorType,
    weights: TensorType | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> TensorType:
    """The adjoint of the logits of softmax_nll_loss: w[t] * g * (softmax(x) - (1 at t, else 0))."""
    require_float(logits, "logits")
    require_adjoint(output_grad, loss_type(logits, targets, weights, reduction))
    return logits
