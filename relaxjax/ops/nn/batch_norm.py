"""Batch norm: on the statistics of the batch in training, on running ones in inference."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr, Tuple
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops.arrays import widened
from relaxjax.ops.axis_layouts import axis_rule
from relaxjax.ops.cost_rules import per_input
from relaxjax.ops.declare import op
from relaxjax.ops.emit import call, narrow, ndim_of, scalar, wide
from relaxjax.ops.shapes import normalize_axis, with_dtype

from .normalization import NEVER_HALF, require_parameters
from .normalizing import Norm


def _norm(ndim: int, axis: int, **options: Any) -> Norm:
    channel = normalize_axis(axis, ndim)
    return Norm([other for other in range(ndim) if other != channel], [channel], **options)


def _batch_norm(data: Any, *given: Any, momentum: float, training: bool, **options: Any) -> Any:
    *affine, moving_mean, moving_var = given
    norm, wide = _norm(data.ndim, **options), widened(data)
    running = [moving_mean.astype(wide.dtype), moving_var.astype(wide.dtype)]
    if not training:
        mean, var = (norm.laid(statistic, data.ndim) for statistic in running)
        out = norm.finished(wide - mean, var, *affine)
        return out.astype(data.dtype), moving_mean, moving_var
    centred, var = norm.centred(wide)
    batch = [jnp.mean(wide, norm.reduced), lax.squeeze(var, norm.reduced)]
    keep, take = (jnp.asarray(share, wide.dtype) for share in (1 - momentum, momentum))
    moved = [keep * old + take * new for old, new in zip(running, batch, strict=True)]
    results = (norm.finished(centred, var, *affine), *moved)
    return tuple(result.astype(data.dtype) for result in results)


def _spelt_out(data: Expr, *given: Expr, momentum: float, training: bool, **options: Any) -> Expr:
    """The form of inference: on the running statistics, which it hands on."""
    gamma, beta, moving_mean, moving_var = given
    ndim = ndim_of(data)
    norm = _norm(ndim, **options)
    centred = wide(data) - norm.spread(wide(moving_mean), ndim)
    out = norm.finish(centred, norm.spread(wide(moving_var), ndim), wide(gamma), wide(beta))
    return Tuple((narrow(out, data), moving_mean, moving_var))


def _training_form(
    data: Expr, *given: Expr, momentum: float, training: bool, **options: Any
) -> Expr | None:
    """The same on the statistics of the batch, with the running ones moved towards them."""
    if not training:
        return None
    whole, *affine, old_mean, old_var = map(wide, (data, *given))
    others = _norm(ndim_of(data), **options).reduced
    mean, var = call("mean", whole, others), call("variance", whole, others)
    attrs = {**options, "momentum": momentum, "training": False}
    out = call("nn.batch_norm", whole, *affine, mean, var, **attrs)[0]
    keep, take = scalar(1 - momentum, old_mean), scalar(momentum, old_mean)
    found = (out, keep * old_mean + take * mean, keep * old_var + take * var)
    return Tuple(tuple(narrow(value, data) for value in found))


def _gradient(
    g: Expr, y: Expr, *given: Expr, momentum: float, training: bool, **options: Any
) -> tuple[Expr | None, ...]:
    wider = tuple(map(wide, given))
    if wider[0] is not given[0]:
        g = Tuple(tuple(wide(g[field]) for field in range(3)))
    found = _wide_gradient(g, *wider, momentum=momentum, training=training, **options)
    return tuple(
        None if x is None else narrow(x, like) for x, like in zip(found, given, strict=True)
    )


def _wide_gradient(
    g: Expr, *given: Expr, momentum: float, training: bool, **options: Any
) -> tuple[Expr | None, ...]:
    data, gamma, _, moving_mean, moving_var = given
    ndim = ndim_of(data)
    norm = _norm(ndim, **options)
    mean = call("mean", data, norm.reduced) if training else moving_mean
    var = call("variance", data, norm.reduced) if training else moving_var
    centred = data - norm.spread(mean, ndim)
    inverse = norm.spread(norm.inverse(var), ndim)
    values, h = centred * inverse, norm.scaled(g[0], gamma)
    parameters = norm.to_parameters(g[0], values)
    if not training:
        to_mean = g[1] - norm.gathered(h * inverse)
        slope = norm.gathered(h * values * inverse * inverse)
        return h * inverse, *parameters, to_mean, g[2] - scalar(0.5, data) * slope
    keep, take = scalar(1 - momentum, data), scalar(momentum, data)
    count = call("sum", call("ones_like", data), norm.reduced)
    through_mean = norm.spread(take * g[1] / count, ndim)
    through_var = centred * norm.spread(scalar(2, data) * take * g[2] / count, ndim)
    to_data = norm.to_data(h, values, inverse) + through_mean + through_var
    return to_data, *parameters, keep * g[1], keep * g[2]


@op(
    "relax.nn.batch_norm",
    layout=axis_rule("axis", vectors=True),
    lower=_batch_norm,
    gradient=_gradient,
    training_form=_training_form,
    decompose=_spelt_out,
    **NEVER_HALF,
    cost=per_input(4),
)
def batch_norm(
    data: TensorType,
    gamma: TensorType,
    beta: TensorType,
    moving_mean: TensorType,
    moving_var: TensorType,
    axis: int,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = True,
) -> TupleType:
    """Batch norm of each channel: (x - mean) / sqrt(variance + epsilon) * gamma + beta.

    In training the mean and the (biased) variance are those of the batch, and the running ones move
    towards them: (1 - momentum) * moving + momentum * batch. Otherwise they are the running ones.
    The result is the triple of the values and both running statistics.
    """
    vectors = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    channel = normalize_axis(axis, data.ndim) if data.ndim >= 0 else 0
    dtype = require_parameters(data, [channel], "the channels of `data`", **vectors)
    return TupleType(tuple(with_dtype(ty, dtype) for ty in (data, moving_mean, moving_var)))
