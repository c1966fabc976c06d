"""Functions of statistics and of numbers, on each element."""

import math
from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dtype_of, scalar, where

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
    at_zero = call("sqrt", where(is_zero, x, one))
    below = call("log", zero * where(is_below, x, -one))
    return where(is_below, below, where(is_zero, at_zero, -above * call("log", above)))


@aten("special_xlog1py.default", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar")
def xlog1py(self: Any, other: Any) -> Expr:
    """x * log(1 + y), which is 0 where x is 0, also where the logarithm is not finite."""
    x, y = map(floating, promoted(self, other))
    zero = scalar(0, x)
    nothing = call("logical_and", call("equal", x, zero), y <= scalar(-1, y))
    return where(nothing, zero, x * call("log1p", where(nothing, zero, y)))


@aten("polygamma.default", "special_polygamma.default")
def polygamma(n: int, self: Expr) -> Expr:
    """Of order 1, numbers below 0 by those above 1."""
    x = floating(self)
    if n == 0:
        return call("digamma", x)
    if n > 1:
        raise ValueError(f"polygamma of order {n}, which is not there here of numbers below 0")
    is_low, pi = x < scalar(0.5, x), scalar(math.pi, x)
    found = call("polygamma", where(is_low, scalar(1, x) - x, x), 1)
    sine = call("sin", pi * where(is_low, x, scalar(0.5, x)))
    return where(is_low, call("square", pi / sine) - found, found)


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
