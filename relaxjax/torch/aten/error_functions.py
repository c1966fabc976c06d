"""Tails of normal distributions, which are too small for numbers, and Bessel functions.

Both are computed by what stands beside an exponential: exp(x * x) * erfc(x) and exp(-|x|) * I(x).
"""

import math
from collections.abc import Callable

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call, dtype_of, scalar, where

from .magnitudes import magnitude
from .promotion import cast, floating
from .table import aten

# By dtype: from where on a series in 1 / x * x is exact to rounding, and by how many terms.
_SERIES = {"float32": (5.0, 10), "float64": (8.0, 20)}


@aten("special_erfcx.default")
def erfcx(self: Expr) -> Expr:
    """exp(x * x) * erfc(x), which goes to 0 slowly."""
    x = floating(self)
    dtype = dtype_of(x)
    if dtype not in _SERIES:
        return cast(erfcx(cast(x, "float32")), dtype)
    start, terms = _SERIES[dtype]
    bound = scalar(start, x)
    is_far = x > bound
    near, far = where(is_far, scalar(0, x), x), where(is_far, x, bound)
    product = call("exp", call("square", near)) * call("erfc", near)
    return where(is_far, _tail(far, terms), product)


def _tail(x: Expr, terms: int) -> Expr:
    """1 - 1 / 2x^2 + 1 * 3 / (2x^2)^2 - ..., over x and the root of pi, from its end."""
    one = scalar(1, x)
    inverse = one / x
    step = scalar(-0.5, x) * call("square", inverse)
    total: Expr = one
    for place in range(terms, 0, -1):
        total = one + total * step * scalar(2 * place - 1, x)
    return total * inverse * scalar(1 / math.sqrt(math.pi), x)


@aten("special_log_ndtr.default")
def log_ndtr(self: Expr) -> Expr:
    """The logarithm of the share of a normal distribution below a number."""
    x = floating(self)
    turned, half = x * scalar(math.sqrt(0.5), x), scalar(0.5, x)
    is_low = x < scalar(-1, x)
    low = where(is_low, turned, scalar(-1, x))
    high = where(is_low, scalar(0, x), turned)
    below = call("log", erfcx(-low) * half) - call("square", low)
    return where(is_low, below, call("log1p", -half * call("erfc", high)))


def _bessel(order: int, is_scaled: bool) -> Callable[[Expr], Expr]:
    def rule(self: Expr) -> Expr:
        x = floating(self)
        dtype = dtype_of(x)
        if dtype not in _SERIES:
            return cast(rule(cast(x, "float32")), dtype)
        scaled = get_op(f"lax.bessel_i{order}e")(x)
        return scaled if is_scaled else call("exp", magnitude(x)) * scaled

    return rule


aten("special_i0e.default")(_bessel(0, True))
aten("special_i1e.default")(_bessel(1, True))
aten("special_i0.default", "i0.default")(_bessel(0, False))
aten("special_i1.default")(_bessel(1, False))
