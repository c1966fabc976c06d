"""Operators on each element of two tensors whose slopes jump: as PyTorch has them there."""

import math
from collections.abc import Callable
from typing import Any

from jax import lax
from jax import numpy as jnp

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dtype_of, scalar, where

from .binary import power_of
from .promotion import OF_FLOATS, cast, floating, is_floating, kind_of, promoted, result_dtype
from .table import aten, traced

_LN2 = math.log(2)


def fixed(x: Expr) -> Expr:
    """A tensor through which no gradient goes."""
    return call("grad.no_grad", x) if is_floating(dtype_of(x)) else x


def is_negative(x: Expr) -> Expr:
    """Whether the sign is minus, which a zero has, too."""
    zero = scalar(0, x)
    if not is_floating(dtype_of(x)):
        return x < zero
    of_zero = call("logical_and", call("equal", x, zero), scalar(1, x) / x < zero)
    return call("logical_or", x < zero, of_zero)


@aten("signbit.default")
def signbit(self: Expr) -> Expr:
    return is_negative(cast(self, "uint8") if dtype_of(self) == "bool" else self)


@aten("hypot.default")
def hypot(self: Any, other: Any) -> Expr:
    """The length of (x, y), which no square makes infinite or 0. Its slope at (0, 0) is NaN."""
    x, y = promoted(self, other)
    largest = fixed(call("maximum", call("abs", x), call("abs", y)))
    is_unit = call("logical_and", largest > scalar(0, x), call("isfinite", largest))
    unit = where(is_unit, largest, scalar(1, x))
    length = unit * call("sqrt", call("square", x / unit) + call("square", y / unit))
    is_infinite = call("logical_or", call("isinf", x), call("isinf", y))
    return where(is_infinite, scalar(math.inf, x), length)


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(self: Any, other: Any) -> Expr:
    """The magnitude of one with the sign of another; the slope at 0 is 0."""
    x, y = map(floating, promoted(self, other))
    turned = where(call("not_equal", is_negative(x), is_negative(y)), -x, x)
    return where(call("equal", x, scalar(0, x)), fixed(turned), turned)


def _numbers_first(beats: str) -> Callable[..., Expr]:
    """The one that beats the other, or that is no NaN; the first of equal ones."""

    def rule(self: Expr, other: Expr) -> Expr:
        x, y = promoted(self, other)
        first = call(beats, x, y)
        if is_floating(dtype_of(x)):
            first = call("grad.once", call("logical_or", first, call("isnan", y)))
        return where(first, x, y)

    return rule


aten("fmax.default")(_numbers_first("greater_equal"))
aten("fmin.default")(_numbers_first("less_equal"))


@aten("heaviside.default")
def heaviside(self: Expr, values: Expr) -> Expr:
    """0 below 0, 1 above, and `values` at 0, to which its adjoint goes."""
    x, y = promoted(self, values)
    step = cast(x > scalar(0, x), dtype_of(x))
    return where(call("equal", x, scalar(0, x)), y, step)


@aten("ldexp.Tensor")
def ldexp(self: Expr, other: Expr) -> Expr:
    x, power = promoted(self, call("exp2", floating(other)))
    return x * power


@aten("logaddexp2.default")
def logaddexp2(self: Expr, other: Expr) -> Expr:
    x, y = promoted(self, other)
    ln2 = scalar(_LN2, x)
    return call("log_add_exp", x * ln2, y * ln2) / ln2


@aten("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def float_power(self: Any, exponent: Any) -> Expr:
    """Of float64, or of complex128."""
    dtype = "complex128" if kind_of(result_dtype(self, exponent)) > OF_FLOATS else "float64"
    return power_of(cast(self, dtype), cast(exponent, dtype))


@aten("isclose.default")
def isclose(
    self: Expr, other: Expr, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Expr:
    x, y = promoted(self, other)
    same = call("equal", x, y)
    if not is_floating(dtype_of(x)) and rtol == 0 and atol == 0:
        return same
    x, y = floating(x), floating(y)
    allowed = scalar(atol, x) + scalar(rtol, x) * call("abs", y)
    near = call("logical_and", call("isfinite", y), call("abs", x - y) <= allowed)
    found = call("logical_or", same, near)
    if equal_nan:
        found = call("logical_or", found, call("logical_and", call("isnan", x), call("isnan", y)))
    return found


def _of_integers(function: Callable[[Any, Any], Any]) -> Callable[..., Expr]:
    def rule(self: Expr, other: Expr) -> Expr:
        return traced(function, *promoted(self, other))

    return rule


aten("gcd.default")(_of_integers(jnp.gcd))
aten("lcm.default")(_of_integers(jnp.lcm))


def _share(function: Callable[[Any, Any], Any]) -> Callable[..., Expr]:
    """The share of the gamma function below or above a bound; by its order PyTorch has no slope."""

    def rule(self: Expr, other: Expr) -> Expr:
        return traced(lambda *pair: function(*jnp.broadcast_arrays(*pair)), *promoted(self, other))

    return rule


aten("igamma.default", "special_gammainc.default")(_share(lax.igamma))
aten("igammac.default", "special_gammaincc.default")(_share(lax.igammac))
