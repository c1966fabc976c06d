"""Functions of statistics and of numbers, on each element."""

import math
from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dtype_of, scalar, where

from .binary import times_nothing
from .promotion import cast, floating, is_floating, promoted
from .table import aten

_ROOT_HALF = math.sqrt(0.5)


def _scaled(factor: float) -> Any:
    def rule(self: Expr) -> Expr:
        x = floating(self)
        return x * scalar(factor, x)

    return rule


aten("deg2rad.default")(_scaled(math.pi / 180))
aten("rad2deg.default")(_scaled(180 / math.pi))


@aten("special_ndtr.default")
def ndtr(self: Expr) -> Expr:
    """The share of a normal distribution below a number."""
    x = floating(self)
    return scalar(0.5, x) * call("erfc", -x * scalar(_ROOT_HALF, x))


@aten("special_entr.default")
def entr(self: Expr) -> Expr:
    """-x * log(x), 0 at 0 with an infinite slope, and minus infinity below without a slope."""
    x = floating(self)
    zero, one = scalar(0, x), scalar(1, x)
    is_zero, is_below = call("equal", x, zero), x < zero
    above = where(call("logical_or", is_zero, is_below), one, x)
    positive = x - call("grad.no_grad", x)  # for the root of -0 has the slope minus infinity
    at_zero = call("sqrt", where(is_zero, positive, one))
    below = call("log", zero * where(is_below, x, -one))
    return where(is_below, below, where(is_zero, at_zero, -above * call("log", above)))


@aten("special_xlog1py.default", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar")
def xlog1py(self: Any, other: Any) -> Expr:
    """x * log(1 + y), which is 0 where x is 0, also where the logarithm is not finite."""
    x, y = map(floating, promoted(self, other))
    zero = scalar(0, x)
    nothing = times_nothing(x, y, -1)
    return where(nothing, zero, x * call("log1p", where(nothing, zero, y)))


@aten("digamma.default", "special_digamma.default", "special_psi.default")
def digamma(self: Expr) -> Expr:
    """The slope of lgamma, infinite at 0 with the sign that is not the zero's."""
    x = floating(self)
    one = scalar(1, x)
    is_zero = call("equal", x, scalar(0, x))
    return where(is_zero, -one / where(is_zero, x, one), call("digamma", where(is_zero, one, x)))


@aten("polygamma.default", "special_polygamma.default")
def polygamma(n: int, self: Expr) -> Expr:
    x = floating(self)
    return digamma(x) if n == 0 else call("polygamma", x, n)


@aten("mvlgamma.default", "special_multigammaln.default")
def mvlgamma(self: Expr, p: int) -> Expr:
    """The logarithm of the gamma function of several dimensions."""
    x = floating(self)
    total: Expr = scalar(p * (p - 1) / 4 * math.log(math.pi), x)
    for place in range(p):
        total = total + call("lgamma", x - scalar(place / 2, x))
    return total


@aten("isposinf.default")
def isposinf(self: Expr) -> Expr:
    return _infinite(self, 1)


@aten("isneginf.default")
def isneginf(self: Expr) -> Expr:
    return _infinite(self, -1)


def _infinite(x: Expr, sign: int) -> Expr:
    y = floating(x) if not is_floating(dtype_of(x)) else x
    return call("equal", y, cast(sign * math.inf, dtype_of(y)))
