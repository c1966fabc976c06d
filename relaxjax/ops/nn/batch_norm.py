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
from relaxjax.ops.emit import call, ndim_of, scalar
from relaxjax.ops.shapes import common_dtype, normalize_axis, with_dtype
from relaxjax.ops.unary import require_float

from .normalization import (
    affine,
    gathered,
    over_axes,
    require_parameter,
    spread,
    standardized_adjoint,
)


def _batch_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    momentum: float,
    training: bool,
) -> Any:
    channel = axis % data.ndim
    wide = widened(data)
    mean, var = moving_mean.astype(wide.dtype), moving_var.astype(wide.dtype)
    if training:
        others = [a for a in range(data.ndim) if a != channel]
        mean, var = jnp.mean(wide, others), jnp.var(wide, others)
        keep, take = (jnp.asarray(c, wide.dtype) for c in (1 - momentum, momentum))
        moving_mean = (keep * moving_mean.astype(wide.dtype) + take * mean).astype(data.dtype)
        moving_var = (keep * moving_var.astype(wide.dtype) + take * var).astype(data.dtype)
    mean, inverse, gamma, beta = (
        over_axes(parameter, [channel], data.ndim)
        for parameter in (mean, lax.rsqrt(var + jnp.asarray(epsilon, var.dtype)), gamma, beta)
    )
    out = affine((wide - mean) * inverse, gamma, beta, scale, center, data.dtype)
    return out, moving_mean, moving_var


def _spelt_out(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    momentum: float,
    training: bool,
) -> Expr:
    """The form of inference: on the running statistics, which it hands on."""
    ndim = ndim_of(data)
    others = [a for a in range(ndim) if a != normalize_axis(axis, ndim)]
    centred = data - call("expand_dims", moving_mean, others)
    variance = call("expand_dims", moving_var, others) + scalar(epsilon, data)
    out: Expr = centred / call("sqrt", variance)
    if scale:
        out = out * call("expand_dims", gamma, others)
    if center:
        out = out + call("expand_dims", beta, others)
    return Tuple((out, moving_mean, moving_var))


def _training_form(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int,
    momentum: float,
    training: bool,
    **rest: Any,
) -> Expr | None:
    """The same on the statistics of the batch, with the running ones moved towards them."""
    if not training:
        return None
    ndim = ndim_of(data)
    others = [a for a in range(ndim) if a != normalize_axis(axis, ndim)]
    mean, var = call("mean", data, others), call("variance", data, others)
    attrs = {"axis": axis, "momentum": momentum, "training": False, **rest}
    out = call("nn.batch_norm", data, gamma, beta, mean, var, **attrs)[0]
    keep, take = scalar(1 - momentum, moving_mean), scalar(momentum, moving_mean)
    return Tuple((out, keep * moving_mean + take * mean, keep * moving_var + take * var))


def _gradient(
    g: Expr,
    y: Expr,
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    momentum: float,
    training: bool,
) -> tuple[Expr | None, ...]:
    ndim = ndim_of(data)
    channel = [normalize_axis(axis, ndim)]
    others = [a for a in range(ndim) if a not in channel]
    mean = call("mean", data, others) if training else moving_mean
    var = call("variance", data, others) if training else moving_var
    centred = data - spread(mean, channel, ndim)
    inverse = spread(call("rsqrt", var + scalar(epsilon, data)), channel, ndim)
    values = centred * inverse
    h = g[0] * spread(gamma, channel, ndim) if scale else g[0]
    parameters = (
        gathered(g[0] * values, channel, ndim) if scale else None,
        gathered(g[0], channel, ndim) if center else None,
    )
    if not training:
        to_mean = g[1] - gathered(h * inverse, channel, ndim)
        slope = gathered(h * values * inverse * inverse, channel, ndim)
        return h * inverse, *parameters, to_mean, g[2] - scalar(0.5, data) * slope
    to_data = standardized_adjoint(h, values, inverse, others)
    keep, take = scalar(1 - momentum, data), scalar(momentum, data)
    count = call("sum", call("ones_like", data), others)
    through_mean = spread(take * g[1] / count, channel, ndim)
    through_var = centred * spread(scalar(2, data) * take * g[2] / count, channel, ndim)
    return to_data + through_mean + through_var, *parameters, keep * g[1], keep * g[2]


@op(
    "relax.nn.batch_norm",
    layout=axis_rule("axis", vectors=True),
    lower=_batch_norm,
    gradient=_gradient,
    training_form=_training_form,
    decompose=_spelt_out,
    precision="never",
    fusion="reduction",
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
    dtype = common_dtype(data=data, **vectors)
    require_float(data, "data")
    channel = normalize_axis(axis, data.ndim) if data.ndim >= 0 else 0
    dims = None if data.dims is None else [data.dims[channel]]
    for name, vector in vectors.items():
        require_parameter(name, vector, dims, "the channels of `data`")
    return TupleType(tuple(with_dtype(ty, dtype) for ty in (data, moving_mean, moving_var)))
