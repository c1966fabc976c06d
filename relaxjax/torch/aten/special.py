"""Functions of statistics and of numbers, on each element."""

import math
from typing import Any

from jax.scipy.special import ndtri as jax_ndtri

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call, dtype_of, scalar, where

from .binary import times_nothing
from .promotion import cast, floating, is_floating, promoted
from .shapes import broadcast_sizes, expand
from .table import aten, traced

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


@aten("special_ndtri.default")
def ndtri(self: Expr) -> Expr:
    """Below which number a share of a normal distribution is; its slope is infinite at the ends."""
    x = floating(self)
    dtype = dtype_of(x)
    if dtype not in ("float32", "float64"):
        return cast(ndtri(cast(x, "float32")), dtype)
    zero, one = scalar(0, x), scalar(1, x)
    is_none, is_all = call("equal", x, zero), call("equal", x, one)
    inside = where(call("logical_or", is_none, is_all), scalar(0.5, x), x)
    above = where(is_all, -call("log", one - where(is_all, x, zero)), traced(jax_ndtri, inside))
    return where(is_none, call("log", where(is_none, x, one)), above)


@aten("special_zeta.default", "special_zeta.other_scalar", "special_zeta.self_scalar")
def zeta(self: Any, other: Any) -> Expr:
    """Hurwitz's function; whole numbers of powers give derivatives of digamma, with a slope."""
    x, y = map(floating, promoted(self, other))
    if isinstance(self, int | float) and self > 1 and float(self).is_integer():
        n = int(self) - 1
        return call("polygamma", y, n) * scalar((-1) ** (n + 1) / math.factorial(n), y)
    sizes = broadcast_sizes(x, y)
    return get_op("lax.zeta")(expand(x, sizes), expand(y, sizes))


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
