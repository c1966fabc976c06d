"""Operators on each element: of several tensors, of tensors and numbers, and comparisons."""

import math
from collections.abc import Callable
from typing import Any

from relaxjax.ir.expr import Constant, Expr
from relaxjax.ops.emit import call, dtype_of, scalar, where

from .complex_numbers import is_complex, of_complex, power
from .promotion import cast, floating, is_floating, promoted, result_dtype
from .table import aten

_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")


def _in_one_dtype(operator: str) -> Callable[..., Expr]:
    def rule(self: Any, other: Any) -> Expr:
        return call(operator, *promoted(self, other))

    return rule


def _bits(operator: str) -> Callable[..., Expr]:
    """Of truth values, the operator of logic."""
    logical = operator.replace("bitwise", "logical")

    def rule(self: Any, other: Any) -> Expr:
        is_bool = result_dtype(self, other) == "bool"
        return call(logical if is_bool else operator, *promoted(self, other))

    return rule


def _logical(operator: str) -> Callable[..., Expr]:
    def rule(self: Expr, other: Expr) -> Expr:
        return call(operator, cast(self, "bool"), cast(other, "bool"))

    return rule


def _declare() -> None:
    for name, operator in _COMPARISONS.items():
        for overload in ("Tensor", "Scalar"):
            aten(f"{name}.{overload}")(_in_one_dtype(operator))
    for name in _BITS:
        for overload in ("Tensor", "Scalar"):
            aten(f"{name}.{overload}")(_bits(name))
            aten(f"__{name[8:]}__.{overload}")(_bits(name))
    for name in ("logical_and", "logical_or", "logical_xor"):
        aten(f"{name}.default")(_logical(name))


_declare()


@aten("maximum.default", "max.other")
def maximum(self: Any, other: Any) -> Expr:
    """The larger of two; of equal ones each has half of the adjoint."""
    return _chosen("maximum", "greater", *promoted(self, other))


@aten("minimum.default", "min.other")
def minimum(self: Any, other: Any) -> Expr:
    """The smaller of two; of equal ones each has half of the adjoint."""
    return _chosen("minimum", "less", *promoted(self, other))


def _chosen(operator: str, beats: str, x: Expr, y: Expr) -> Expr:
    """One of two, by answers that are stored: one of them has the adjoint, or each its half."""
    if not is_floating(dtype_of(x)):
        return call(operator, x, y)
    half = scalar(0.5, x)
    first, second = (call("grad.once", call(beats, *pair)) for pair in ((x, y), (y, x)))
    return where(first, x, where(second, y, half * x + half * y))


@aten("add.Tensor", "add.Scalar")
def add(self: Any, other: Any, alpha: Any = 1) -> Expr:
    x, y = promoted(self, other)
    return x + times(y, alpha)


@aten("sub.Tensor", "sub.Scalar", "subtract.Tensor")
def sub(self: Any, other: Any, alpha: Any = 1) -> Expr:
    x, y = promoted(self, other)
    return x - times(y, alpha)


def times(x: Expr, alpha: Any) -> Expr:
    return x if alpha == 1 else x * cast(alpha, dtype_of(x))


@aten("mul.Tensor", "mul.Scalar", "multiply.Tensor")
def mul(self: Any, other: Any) -> Expr:
    x, y = promoted(self, other)
    return call("logical_and" if dtype_of(x) == "bool" else "multiply", x, y)


@aten("div.Tensor", "div.Scalar", "divide.Tensor", "true_divide.Tensor")
def div(self: Any, other: Any) -> Expr:
    x, y = map(floating, promoted(self, other))
    return x / y


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(self: Any, other: Any, rounding_mode: str | None = None) -> Expr:
    if rounding_mode is None:
        return div(self, other)
    x, y = promoted(self, other)
    if rounding_mode == "floor":
        return call("floor_divide", x, y)
    quotient = x / y
    return call("trunc", quotient) if is_floating(dtype_of(x)) else quotient


@aten("floor_divide.default", "floor_divide.Scalar")
def floor_divide(self: Any, other: Any) -> Expr:
    return call("floor_divide", *promoted(self, other))


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(self: Any, other: Any) -> Expr:
    return call("floor_mod", *promoted(self, other))


@aten("atan2.default")
def atan2(self: Any, other: Any) -> Expr:
    """An angle, whose slopes at (0, 0) are 0."""
    x, y = map(floating, promoted(self, other))
    zero = scalar(0, x)
    is_zero = call("logical_and", call("equal", x, zero), call("equal", y, zero))
    at_zero = call("atan2", call("grad.no_grad", x), call("grad.no_grad", y))
    return where(is_zero, at_zero, call("atan2", x, where(is_zero, scalar(1, y), y)))


def power_of(x: Expr, exponent: Expr) -> Expr:
    """A power of real or of complex numbers."""
    return power(x, exponent) if is_complex(x) else call("power", x, exponent)


@aten("pow.Tensor_Scalar")
def pow_scalar(self: Expr, exponent: Any) -> Expr:
    """Small powers as products and roots, whose derivatives are those of torch at 0 too."""
    x = cast(self, result_dtype(self, exponent))
    match exponent:
        case 0:
            return call("ones_like", x)
        case 1:
            return x
        case 2:
            return call("square", x)
        case 3:
            return call("square", x) * x
        case 0.5 | -0.5:
            root = "sqrt" if exponent > 0 else "rsqrt"
            return of_complex(root, x) if is_complex(x) else call(root, x)
        case -1 if is_floating(dtype_of(x)):
            return scalar(1, x) / x
    return power_of(x, cast(exponent, dtype_of(x)))


@aten("where.self")
def where_self(condition: Expr, self: Any, other: Any) -> Expr:
    return where(cast(condition, "bool"), *promoted(self, other))


@aten("where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where_scalar(condition: Expr, self: Any, other: Any) -> Expr:
    return where_self(condition, self, other)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: Expr, mask: Expr, value: Any) -> Expr:
    return where(cast(mask, "bool"), cast(value, dtype_of(self)), self)


@aten("clamp.default", "clamp.Tensor", "clip.default", "clip.Tensor")
def clamp(self: Expr, min: Any = None, max: Any = None) -> Expr:  # torch's names
    """Bounded; at a bound it is the tensor that moves. What is NaN stays so."""
    dtype = result_dtype(self, *(bound for bound in (min, max) if bound is not None))
    x = cast(self, dtype)
    if min is not None:
        low = cast(min, dtype)
        x = where(_beyond(x < low, low), low, x)
    if max is not None:
        high = cast(max, dtype)
        x = where(_beyond(x > high, high), high, x)
    return x


def _beyond(is_beyond: Expr, bound: Expr) -> Expr:
    """Where a bound counts: also where it is NaN, which only one in a tensor can be."""
    if isinstance(bound, Constant) or not is_floating(dtype_of(bound)):
        return is_beyond
    return call("logical_or", is_beyond, call("not_equal", bound, bound))


@aten("addcmul.default")
def addcmul(self: Expr, tensor1: Expr, tensor2: Expr, value: Any = 1) -> Expr:
    x, y, z = promoted(self, tensor1, tensor2)
    return x + times(y * z, value)


@aten("addcdiv.default")
def addcdiv(self: Expr, tensor1: Expr, tensor2: Expr, value: Any = 1) -> Expr:
    x, y, z = promoted(self, tensor1, tensor2)
    return x + times(y / z, value)


@aten("lerp.Scalar", "lerp.Tensor")
def lerp(self: Expr, end: Expr, weight: Any) -> Expr:
    return self + cast(weight, dtype_of(self)) * (end - self)


@aten("bitwise_left_shift.Tensor", "__lshift__.Scalar", "bitwise_left_shift.Tensor_Scalar")
def left_shift(self: Any, other: Any) -> Expr:
    return call("left_shift", *promoted(self, other))


@aten("bitwise_right_shift.Tensor", "__rshift__.Scalar", "bitwise_right_shift.Tensor_Scalar")
def right_shift(self: Any, other: Any) -> Expr:
    return call("right_shift", *promoted(self, other))


@aten("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")
@aten("special_xlogy.default", "special_xlogy.self_scalar", "special_xlogy.other_scalar")
def xlogy(self: Any, other: Any) -> Expr:
    """x * log(y), which is 0 where x is 0, also where the logarithm is not finite."""
    x, y = map(floating, promoted(self, other))
    zero = scalar(0, x)
    nothing = times_nothing(x, y, 0)
    return where(nothing, zero, x * call("log", where(nothing, scalar(1, y), y)))


def times_nothing(x: Expr, y: Expr, bound: float) -> Expr:
    """Where x is 0 and a logarithm of y is not finite, as it is up to a bound."""
    is_infinite = call("logical_or", y <= scalar(bound, y), call("equal", y, scalar(math.inf, y)))
    return call("logical_and", call("equal", x, scalar(0, x)), is_infinite)


aten("rsub.Tensor", "rsub.Scalar")(lambda self, other, alpha=1: sub(other, self, alpha))
aten("fmod.Tensor", "fmod.Scalar")(lambda self, other: call("mod", *promoted(self, other)))
aten("pow.Tensor_Tensor", "pow.Scalar")(lambda self, exponent: power_of(*promoted(self, exponent)))
aten("clamp_min.default", "clamp_min.Tensor")(lambda self, min: clamp(self, min))
aten("clamp_max.default", "clamp_max.Tensor")(lambda self, max: clamp(self, None, max))
aten("logaddexp.default")(lambda self, other: call("log_add_exp", *promoted(self, other)))
