"""Operators on each element: of one tensor."""

import math
from collections.abc import Callable
from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dtype_of, ndim_of, scalar, where

from .complex_numbers import is_complex, of_complex, unit
from .magnitudes import magnitude
from .pairs import fixed
from .promotion import OF_FLOATS, cast, floating, is_floating, kind_of, lowest, promoted
from .table import aten, view

# Operators of one tensor that Relax has too: those that compute in floats, and those in any dtype.
_IN_FLOATS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan"),
    *("tanh", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "rsqrt", "sqrt"),
    *("sigmoid", "erf", "erfc", "lgamma", "sinc"),
)
_IN_ANY = ("ceil", "floor", "round", "trunc", "bitwise_not")
_OTHER_NAMES = {
    "erfinv": ("erf_inv", True),
    "special_erf": ("erf", True),
    "special_erfinv": ("erf_inv", True),
    "special_expm1": ("expm1", True),
    "neg": ("negative", False),
    "relu": ("nn.relu", False),
    "fix": ("trunc", False),
}


def _unary(operator: str, in_floats: bool) -> Callable[..., Expr]:
    def rule(self: Expr) -> Expr:
        if in_floats and is_complex(self):
            return of_complex(operator, self)
        return call(operator, floating(self) if in_floats else self)

    return rule


for _name in _IN_FLOATS:
    aten(f"{_name}.default")(_unary(_name, True))
for _name in _IN_ANY:
    aten(f"{_name}.default")(_unary(_name, False))
for _name, (_operator, _in_floats) in _OTHER_NAMES.items():
    aten(f"{_name}.default")(_unary(_operator, _in_floats))


@aten("square.default")
def square(self: Expr) -> Expr:
    return call("square", cast(self, "int64") if dtype_of(self) == "bool" else self)


@aten("sign.default", "sgn.default")
def sign(self: Expr) -> Expr:
    """-1, 0 or 1; 0 for what is no number. Of a complex number, its direction."""
    if is_complex(self):
        return unit(self)
    found = call("sign", self)
    if kind_of(dtype_of(self)) != OF_FLOATS:
        return found
    return where(call("isnan", self), scalar(0, self), found)


@aten(
    *("clone.default", "lift_fresh_copy.default", "positive.default", "detach_copy.default"),
    "alias_copy.default",
)
def clone(self: Expr, memory_format: Any = None) -> Expr:
    return self


def with_gradient_of(old: Expr, new: Expr) -> Expr:
    """The numbers of `new` with the gradient of `old`, as of what is written where none is taken.

    PyTorch then goes back through what was there before: `y.detach().copy_(y.round())` is a
    straight-through estimator.
    """
    if not is_floating(dtype_of(old)):
        return new
    known = where(call("isfinite", old), old, scalar(0, old))
    return call("grad.no_grad", new) + (known - call("grad.no_grad", known))


def _put_whole(base: Expr, new: Expr, **_: Any) -> Expr:
    return new


@view("detach.default", detaches=True)
def detach(self: Expr) -> Expr:
    return call("grad.no_grad", self) if is_floating(dtype_of(self)) else self


@aten("reciprocal.default")
def reciprocal(self: Expr) -> Expr:
    x = floating(self)
    return scalar(1, x) / x


@aten("nan_to_num.default")
def nan_to_num(
    self: Expr, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Expr:
    dtype = dtype_of(self)
    if not is_floating(dtype):
        return self
    from_infinity = cast(_largest(dtype) if posinf is None else posinf, dtype)
    from_negative = cast(-_largest(dtype) if neginf is None else neginf, dtype)
    finite = where(call("isnan", self), cast(nan or 0.0, dtype), self)
    infinite = call("isinf", self)
    negative = self < scalar(0, self)
    return where(infinite, where(negative, from_negative, from_infinity), finite)


def _largest(dtype: str) -> float:
    return -float(lowest(dtype))


@aten("gelu.default")
def gelu(self: Expr, approximate: str = "none") -> Expr:
    """Of half precision it is computed in float32, and rounded once, as in torch."""
    x = floating(self)
    dtype = dtype_of(x)
    wide = cast(x, "float32") if dtype in ("bfloat16", "float16") else x
    return cast(call("nn.gelu_tanh" if approximate == "tanh" else "nn.gelu", wide), dtype)


@aten("elu.default")
def elu(self: Expr, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Expr:
    return _exponential_below(self, alpha, scale, input_scale)


def _exponential_below(x: Expr, alpha: float, scale: float, input_scale: float) -> Expr:
    """x above 0 and alpha * (exp(x) - 1) below; no exponential of what is above can be infinite."""
    zero = scalar(0, x)
    below = where(x > zero, zero, x) * scalar(input_scale, x)  # which moves at 0, too
    curve = call("expm1", below) * scalar(alpha, x)
    return where(x > zero, x, curve) * scalar(scale, x)


@aten("leaky_relu.default")
def leaky_relu(self: Expr, negative_slope: float = 0.01) -> Expr:
    return call("nn.leakyrelu", self, negative_slope)


@aten("prelu.default", "_prelu_kernel.default")
def prelu(self: Expr, weight: Expr) -> Expr:
    ndim = ndim_of(self)
    if ndim_of(weight) == 1 and ndim != 1:
        weight = call("reshape", weight, [-1] + [1] * (ndim - 2) if ndim else [])
    return where(self > scalar(0, self), self, self * weight)


@aten("softplus.default")
def softplus(self: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    return call("nn.softplus", self, float(beta), float(threshold))


@aten("log_sigmoid.default")
def log_sigmoid(self: Expr) -> Expr:
    zero = scalar(0, self)
    return call("minimum", self, zero) - call("log1p", call("exp", -call("abs", self)))


@aten("log_sigmoid_forward.default")
def log_sigmoid_forward(self: Expr) -> tuple[Expr, Expr]:
    return log_sigmoid(self), call("exp", -call("abs", self))


def _piecewise(x: Expr, low: float, high: float, below: Expr, above: Expr, between: Expr) -> Expr:
    """What a function is between two bounds, and outside; at the bounds it is what is outside."""
    return where(x <= scalar(low, x), below, where(x >= scalar(high, x), above, between))


@aten("hardtanh.default")
def hardtanh(self: Expr, min_val: float = -1, max_val: float = 1) -> Expr:
    ends = scalar(min_val, self), scalar(max_val, self)
    return _piecewise(self, min_val, max_val, *ends, self)


@aten("hardsigmoid.default")
def hardsigmoid(self: Expr) -> Expr:
    line = self * scalar(1 / 6, self) + scalar(0.5, self)
    return _piecewise(self, -3, 3, scalar(0, self), scalar(1, self), line)


@aten("hardswish.default")
def hardswish(self: Expr) -> Expr:
    inner = where(call("abs", self) >= scalar(3, self), scalar(0, self), self)  # NaN stays so
    line = inner * (inner + scalar(3, self)) * scalar(1 / 6, self)
    return _piecewise(self, -3, 3, scalar(0, self), self, line)


@aten("hardshrink.default")
def hardshrink(self: Expr, lambd: float = 0.5) -> Expr:
    return where(call("abs", self) <= scalar(lambd, self), scalar(0, self), self)


@aten("softshrink.default")
def softshrink(self: Expr, lambd: float = 0.5) -> Expr:
    edge = scalar(lambd, self)
    inner = where(call("isnan", self), fixed(self), scalar(0, self))
    return where(self > edge, self - edge, where(self < -edge, self + edge, inner))


@aten("threshold.default")
def threshold(self: Expr, threshold: float, value: float) -> Expr:
    return where(self <= scalar(threshold, self), scalar(value, self), self)  # NaN stays so


@aten("glu.default")
def glu(self: Expr, dim: int = -1) -> Expr:
    halves = call("split", self, 2, dim)
    return halves[0] * call("sigmoid", halves[1])


@aten("logit.default")
def logit(self: Expr, eps: float | None = None) -> Expr:
    x = floating(self)
    if eps is not None:  # the lower bound first, which may be above the other one
        low, high = scalar(eps, x), scalar(1 - eps, x)
        x = where(x < low, low, where(x > high, high, x))
    return call("log", x) - call("log1p", -x)


@aten("round.decimals")
def round_decimals(self: Expr, decimals: int) -> Expr:
    factor = scalar(math.pow(10, decimals), self)
    return call("round", self * factor) / factor


@aten("softsign.default")
def softsign(self: Expr) -> Expr:
    one, size = promoted(1.0, call("abs", self))
    return self / (one + size)


aten("abs.default")(lambda self: magnitude(self))
view("alias.default", "lift_fresh.default", "lift.default", put=_put_whole)(lambda self: self)
view("contiguous.default", put=_put_whole, may_copy=True)(lambda self, memory_format=None: self)
aten("logical_not.default")(lambda self: call("logical_not", cast(self, "bool")))
aten("isnan.default")(lambda self: call("isnan", floating(self)))
aten("isinf.default")(lambda self: call("isinf", floating(self)))
aten("isfinite.default")(lambda self: call("isfinite", floating(self)))
aten("silu.default")(lambda self: call("nn.silu", self))
aten("mish.default")(lambda self: self * call("tanh", call("nn.softplus", self)))
aten("selu.default")(lambda self: call("nn.selu", self))
aten("celu.default")(lambda self, alpha=1.0: _exponential_below(self, alpha, 1.0, 1 / alpha))
aten("relu6.default")(lambda self: hardtanh(self, 0, 6))
aten("frac.default")(lambda self: self - call("trunc", self))
