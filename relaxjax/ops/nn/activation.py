"""Activation functions, and the softmax family."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ops.axis_layouts import ONE_AXIS
from relaxjax.ops.cost_rules import ELEMENTWISE, TRANSCENDENTAL_FLOPS, per_element
from relaxjax.ops.declare import OpError, op, sugar
from relaxjax.ops.emit import call, dims_of, ndim_of, scalar, shape_of, where
from relaxjax.ops.shapes import (
    common_dtype,
    never_repeated,
    normalize_axis,
    require_ndim,
    require_real,
)
from relaxjax.ops.unary import require_float

_RULES: dict[str, Any] = {
    "precision": "follow",
    "fusion": "elementwise",
    "facts": {"elementwise": True},
}
_INVERSE_SQRT_2 = 1 / math.sqrt(2)
_INVERSE_SQRT_2_PI = 1 / math.sqrt(2 * math.pi)
_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def activation(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    gradient: Callable[..., Expr],
    more_flops: int,
    turns: bool = False,
) -> Op:
    """A function of each element of a float tensor: one such as exp, and a few operations more."""

    def infer(data: TensorType) -> TensorType:
        require_float(data, "data")
        return data

    infer.__doc__ = doc
    cost = per_element(TRANSCENDENTAL_FLOPS + more_flops)
    rules = {**_RULES, "facts": {"elementwise": True, "turns": True}} if turns else _RULES
    return op(f"relax.nn.{name}", lower=lower, gradient=gradient, cost=cost, **rules)(infer)


def _relu_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    zero = scalar(0, x)
    return where(x > zero, g, zero)


@op(
    "relax.nn.relu",
    lower=lambda data: jnp.maximum(data, jnp.zeros_like(data)),
    gradient=_relu_gradient,
    facts={"elementwise": True, "homogeneous": True, "nonnegative": True, "turns": True},
    precision="follow",
    fusion="elementwise",
    cost=ELEMENTWISE,
)
def relu(data: TensorType) -> TensorType:
    """Rectified linear unit: y = max(x, 0).

    Its derivative at 0 is 0, as in JAX and PyTorch; TVM's is 1. At NaN it is 0, as in JAX.
    """
    require_real(data=data)
    return data


@sugar("relax.nn.relu6")
def relu6(data: Expr) -> Expr:
    """Rectified linear unit with a ceiling: y = min(max(x, 0), 6)."""
    return call("clip", data, 0, 6)


def _silu_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    sigmoid = call("sigmoid", x)
    return g * (sigmoid + y * (scalar(1, x) - sigmoid))


def _gelu(x: Any) -> Any:
    """By erf: within 1e-6 in float32, and 0 below -5.

    erfc is exact there, but XLA keeps it for the backward part, where it computes an erf again: a
    network of 16 layers took 1.6 times as many temporary bytes, and longer.
    """
    half, factor = jnp.asarray(0.5, x.dtype), jnp.asarray(_INVERSE_SQRT_2, x.dtype)
    return half * x * (lax.erf(x * factor) + jnp.ones_like(half))


def _gelu_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    """The normal distribution function, plus x times its density."""
    below = scalar(0.5, x) * (call("erf", x * _INVERSE_SQRT_2) + scalar(1, x))
    density = scalar(_INVERSE_SQRT_2_PI, x) * call("exp", scalar(-0.5, x) * (x * x))
    return g * (below + x * density)


def _gelu_tanh(x: Any) -> Any:
    scale, cubic, half, one = (jnp.asarray(c, x.dtype) for c in (_GELU_SCALE, _GELU_CUBIC, 0.5, 1))
    return half * x * (one + lax.tanh(scale * (x + cubic * x * x * x)))


def _gelu_tanh_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    """The hyperbolic tangent is that of the lowering, step by step, so that it is taken once.

    The slope of its argument, which overflows first, is multiplied factor by factor.
    """
    scale, cubic, half, one = (scalar(c, x) for c in (_GELU_SCALE, _GELU_CUBIC, 0.5, 1))
    tanh = call("tanh", scale * (x + cubic * x * x * x))
    steep = x * (one - tanh * tanh) * (0.5 * _GELU_SCALE)
    return g * (half * (one + tanh) + steep + steep * x * x * (3 * _GELU_CUBIC))


def _selu(x: Any) -> Any:
    scale, alpha = (jnp.asarray(c, x.dtype) for c in (_SELU_SCALE, _SELU_ALPHA))
    zero = jnp.zeros_like(x)
    return scale * jnp.where(x > zero, x, alpha * jnp.expm1(jnp.minimum(x, zero)))


def _selu_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    slope = where(x > scalar(0, x), scalar(_SELU_SCALE, x), y + _SELU_SCALE * _SELU_ALPHA)
    return g * slope


silu = activation(
    "silu",
    lambda data: data * lax.logistic(data),
    "Sigmoid linear unit: y = x * sigmoid(x).",
    _silu_gradient,
    1,
)
gelu = activation(
    "gelu",
    _gelu,
    "Gaussian error linear unit: y = x * P(X <= x) for a standard normal X.",
    _gelu_gradient,
    4,
)
gelu_tanh = activation(
    "gelu_tanh",
    _gelu_tanh,
    "Gaussian error linear unit, approximated by a tanh: "
    "y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))).",
    _gelu_tanh_gradient,
    8,
)
selu = activation(
    "selu",
    _selu,
    "Scaled exponential linear unit: y = s * x for x > 0, else s * a * (exp(x) - 1).",
    _selu_gradient,
    5,
    turns=True,
)


def _leakyrelu(data: Any, alpha: float) -> Any:
    return jnp.where(data > jnp.zeros_like(data), data, data * jnp.asarray(alpha, data.dtype))


def _leakyrelu_gradient(g: Expr, y: Expr, x: Expr, alpha: float) -> Expr:
    return where(x > scalar(0, x), g, scalar(alpha, x) * g)


@op(
    "relax.nn.leakyrelu",
    lower=_leakyrelu,
    gradient=_leakyrelu_gradient,
    facts={"elementwise": True, "homogeneous": True, "turns": True},
    precision="follow",
    fusion="elementwise",
    cost=per_element(2),
)
def leakyrelu(data: TensorType, alpha: float = 0.01) -> TensorType:
    """Leaky rectified linear unit: y = x for x > 0, else alpha * x."""
    require_float(data, "data")
    return data


def _prelu(data: Any, alpha: Any, axis: int) -> Any:
    shape = [alpha.size if a == axis % data.ndim else 1 for a in range(data.ndim)]
    return jnp.where(data > jnp.zeros_like(data), data, data * alpha.reshape(shape))


def _prelu_gradient(g: Expr, y: Expr, x: Expr, alpha: Expr, axis: int) -> tuple[Expr, Expr]:
    ndim = ndim_of(x)
    along = normalize_axis(axis, ndim)
    slopes = [dims_of(alpha)[0] if a == along else 1 for a in range(ndim)]
    positive, zero = x > scalar(0, x), scalar(0, x)
    to_alpha = call("collapse_sum_to", where(positive, zero, g * x), slopes)
    to_x = where(positive, g, g * call("reshape", alpha, slopes))
    return to_x, call("reshape", to_alpha, shape_of(alpha))


@op(
    "relax.nn.prelu",
    layout=ONE_AXIS,
    lower=_prelu,
    gradient=_prelu_gradient,
    precision="follow",
    fusion="broadcast",
    facts={"turns": True},
    cost=per_element(2),
)
def prelu(data: TensorType, alpha: TensorType, axis: int = 1) -> TensorType:
    """Leaky rectified linear unit with a slope for each channel, or one for all, that is learnt."""
    require_float(data, "data")
    common_dtype(data=data, alpha=alpha)
    require_ndim("alpha", alpha, 1)
    along = normalize_axis(axis, data.ndim) if data.ndim >= 0 else axis
    if data.dims is not None and alpha.dims is not None:
        channels, slopes = data.dims[along], alpha.dims[0]
        if never_repeated(slopes, channels):
            raise OpError(f"`alpha` must have {channels} elements or 1, found {slopes}")
    return data


def _softplus(data: Any, beta: float, threshold: float) -> Any:
    scaled = data * jnp.asarray(beta, data.dtype)
    linear = scaled > jnp.asarray(threshold, data.dtype)
    soft = jnp.maximum(scaled, jnp.zeros_like(scaled)) + jnp.log1p(jnp.exp(-abs(scaled)))
    return jnp.where(linear, data, soft / jnp.asarray(beta, data.dtype))


def _softplus_gradient(g: Expr, y: Expr, x: Expr, beta: float, threshold: float) -> Expr:
    scaled = x * beta
    return where(scaled > scalar(threshold, x), g, g * call("sigmoid", scaled))


@op(
    "relax.nn.softplus",
    lower=_softplus,
    gradient=_softplus_gradient,
    **_RULES,
    cost=per_element(TRANSCENDENTAL_FLOPS * 2 + 3),
)
def softplus(data: TensorType, beta: float = 1.0, threshold: float = 20.0) -> TensorType:
    """Smooth rectified linear unit: y = log(1 + exp(beta * x)) / beta.

    Where beta * x is above the threshold, it is x itself.
    """
    require_float(data, "data")
    return data


def _has_none(data: Any, axis: int) -> bool:
    """Whether there is nothing along an axis, of which JAX has no largest element."""
    return isinstance(data.shape[axis], int) and not data.shape[axis]


def _softmax(data: Any, axis: int) -> Any:
    if _has_none(data, axis):
        return data
    powers = jnp.exp(data - lax.stop_gradient(jnp.max(data, axis, keepdims=True)))
    return powers / jnp.sum(powers, axis, keepdims=True)


def _softmax_gradient(g: Expr, y: Expr, x: Expr, axis: int) -> Expr:
    return (g - call("sum", g * y, axis, True)) * y


def _log_softmax(data: Any, axis: int) -> Any:
    if _has_none(data, axis):
        return data
    shifted = data - lax.stop_gradient(jnp.max(data, axis, keepdims=True))
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, keepdims=True))


def _log_softmax_gradient(g: Expr, y: Expr, x: Expr, axis: int) -> Expr:
    return g - call("sum", g, axis, True) * call("exp", y)


def _softmax_type(data: TensorType, axis: int) -> TensorType:
    require_float(data, "data")
    if data.ndim >= 0:
        normalize_axis(axis, data.ndim)
    return data


_AXIS_RULES: dict[str, Any] = {
    "layout": ONE_AXIS,
    "fusion": "reduction",
    "cost": per_element(TRANSCENDENTAL_FLOPS + 4),
}


@op("relax.nn.softmax", lower=_softmax, gradient=_softmax_gradient, **_AXIS_RULES)
def softmax(data: TensorType, axis: int = -1) -> TensorType:
    """Softmax along `axis`: y = exp(x) / sum(exp(x))."""
    return _softmax_type(data, axis)


@op("relax.nn.log_softmax", lower=_log_softmax, gradient=_log_softmax_gradient, **_AXIS_RULES)
def log_softmax(data: TensorType, axis: int = -1) -> TensorType:
    """Logarithm of softmax along `axis`: y = x - log(sum(exp(x)))."""
    return _softmax_type(data, axis)
