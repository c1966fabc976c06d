"""Functions of each element, and a reduction, that models need and TVM does not have."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType

from .arrays import widened
from .axis_layouts import REDUCED
from .conversions import Axes
from .cost_rules import TRANSCENDENTAL, TRANSCENDENTAL_FLOPS, per_input
from .declare import OpError, op
from .emit import call, scalar, where
from .statistical import reduced_type, with_reduced_axes
from .traced import traced_gradient
from .unary import float_only, require_float

_LOG_2, _LOG_10 = math.log(2), math.log(10)
_INVERSE_SQRT_PI = 1 / math.sqrt(math.pi)


def _widely(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` in float32 at least: 16 bits hold no multiple of a large x well enough."""
    return lambda x: function(widened(x)).astype(x.dtype)


def _erfc_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return -g * (scalar(2 * _INVERSE_SQRT_PI, x) * call("exp", -(x * x)))


def _erf_inv_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * (scalar(0.5 / _INVERSE_SQRT_PI, x) * call("exp", y * y))


log1p = float_only(
    "log1p",
    lax.log1p,
    "Logarithm of one more, exact for small x too: y = log(1 + x).",
    lambda g, y, x: g / (scalar(1, x) + x),
    {"inverse": "relax.expm1"},
)
expm1 = float_only(
    "expm1",
    lax.expm1,
    "Exponential less one, exact for small x too: y = exp(x) - 1.",
    lambda g, y, x: g * (y + scalar(1, x)),
    {"inverse": "relax.log1p"},
)
exp2 = float_only(
    "exp2",
    _widely(lax.exp2),
    "Power of two: y = 2 ** x.",
    lambda g, y, x: g * (scalar(_LOG_2, x) * y),
    {"inverse": "relax.log2"},
)
log2 = float_only(
    "log2",
    jnp.log2,
    "Logarithm to the base 2.",
    lambda g, y, x: g / (scalar(_LOG_2, x) * x),
    {"inverse": "relax.exp2"},
)
log10 = float_only(
    "log10", jnp.log10, "Logarithm to the base 10.", lambda g, y, x: g / (scalar(_LOG_10, x) * x)
)
logit = float_only(
    "logit",
    lambda x: lax.log(x) - lax.log1p(-x),
    "Logarithm of the odds, for 0 < x < 1: y = log(x / (1 - x)).",
    lambda g, y, x: g / (x * (scalar(1, x) - x)),
    {"inverse": "relax.sigmoid"},
)
cbrt = float_only(
    "cbrt",
    lax.cbrt,
    "Cube root, of negative numbers too.",
    lambda g, y, x: g / (scalar(3, x) * (y * y)),
    {"odd": True},
)
erfc = float_only(
    "erfc",
    lax.erfc,
    "Complementary error function, exact for large x too: y = 1 - erf(x).",
    _erfc_gradient,
)
erf_inv = float_only(
    "erf_inv",
    lax.erf_inv,
    "Inverse error function, for |x| < 1: erf(y) = x.",
    _erf_inv_gradient,
    {"odd": True, "inverse": "relax.erf"},
)
lgamma = float_only(
    "lgamma",
    lax.lgamma,
    "Logarithm of the absolute value of the gamma function.",
    lambda g, y, x: g * call("digamma", x),
)
digamma = float_only(
    "digamma", lax.digamma, "Derivative of lgamma.", lambda g, y, x: g * call("polygamma", x, 1)
)
sinc = float_only(
    "sinc",
    _widely(jnp.sinc),
    "Normalised cardinal sine: y = sin(pi * x) / (pi * x), and 1 at 0.",
    traced_gradient("relax.sinc"),
    {"even": True},
)


def _polygamma(x: Any, n: int) -> Any:
    """Of numbers below 1/2 by those above it: they differ by a derivative of pi / tan(pi x)."""
    wide = widened(x)
    if n == 0:
        return lax.digamma(wide).astype(x.dtype)
    is_low = wide < 0.5
    found = lax.polygamma(jnp.full_like(wide, n), jnp.where(is_low, 1 - wide, wide))
    low = jnp.where(is_low, wide, jnp.full_like(wide, 0.5))
    cotangent = 1 / jnp.tan(math.pi * (low - jnp.round(low)))
    first, *others = _derivative_of_cotangent(n)
    slope: Any = first
    for one in others:
        slope = slope * cotangent + one
    turned = math.pi ** (n + 1) * slope
    return jnp.where(is_low, (found if n % 2 == 0 else -found) - turned, found).astype(x.dtype)


def _derivative_of_cotangent(order: int) -> list[float]:
    """The derivative as a polynomial of the cotangent c, by c' = -1 - c * c; constants last."""
    found = np.poly1d([1, 0])
    for _ in range(order):
        found = found.deriv() * np.poly1d([-1, 0, -1])
    return [float(one) for one in found.coefficients]


@op(
    "relax.polygamma",
    lower=_polygamma,
    gradient=lambda g, y, x, n: g * call("polygamma", x, n + 1),
    fusion="elementwise",
    facts={"elementwise": True},
    cost=TRANSCENDENTAL,
)
def polygamma(x: TensorType, n: int) -> TensorType:
    """Derivative of order `n` of digamma; of order 0, digamma itself."""
    require_float(x, "x")
    if n < 0:
        raise OpError(f"`n` must not be negative, found {n}")
    return x


def _logsumexp_gradient(
    g: Expr, y: Expr, x: Expr, axis: Sequence[int] | None, keepdims: bool
) -> Expr:
    """The shares of the sum; where every element is minus infinity, all of them are 0."""
    total = with_reduced_axes(y, axis, keepdims)
    shift = where(call("equal", total, scalar(-math.inf, total)), scalar(0, total), total)
    return with_reduced_axes(g, axis, keepdims) * call("exp", x - shift)


@op(
    "relax.logsumexp",
    layout=REDUCED,
    lower=lambda x, axis, keepdims: jax.nn.logsumexp(x, axis, keepdims=keepdims),
    gradient=_logsumexp_gradient,
    fusion="reduction",
    cost=per_input(TRANSCENDENTAL_FLOPS + 3),
)
def logsumexp(x: TensorType, axis: Axes | None = None, keepdims: bool = False) -> TensorType:
    """Sum in the logarithm's domain along `axis`, without overflow: y = log(sum(exp(x)))."""
    require_float(x, "x")
    return reduced_type(x, axis, keepdims, x.dtype)
