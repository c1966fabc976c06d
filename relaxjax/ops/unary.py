"""Unary operators: one result element for each element of the argument."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import ZERO_GRADIENT, GradientRule, NoGradient, Op
from relaxjax.ir.types import PrimType, TensorType, is_float, is_smooth

from .arrays import keeping_dtype
from .cost_rules import ELEMENTWISE, TRANSCENDENTAL, CostRule, per_element
from .declare import OpError, op
from .emit import call, host_scalar, scalar, where
from .shapes import require_numbers, require_real, with_dtype


def require_float(ty: TensorType, name: str) -> None:
    """An integer, bool or complex tensor is an error; an unknown dtype is not."""
    require_real(**{name: ty})
    if ty.dtype is not None and not is_float(ty.dtype):
        raise OpError(f"`{name}` must have a float dtype, found {ty.dtype}: convert it with astype")


def elementwise(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    gradient: GradientRule | NoGradient,
    facts: Mapping[str, Any] | None = None,
    cost: CostRule = ELEMENTWISE,
    of_complex: bool = False,
) -> Op:
    """An operator on tensors of any dtype, or of any real one, which the result keeps."""

    def infer(x: TensorType) -> TensorType:
        if not of_complex:
            require_real(x=x)
        return x

    return _declared(name, keeping_dtype(lower), doc, gradient, facts, cost, infer)


def float_only(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    gradient: GradientRule | NoGradient,
    facts: Mapping[str, Any] | None = None,
) -> Op:
    """An operator on tensors of a float dtype, which the result keeps."""

    def infer(x: TensorType) -> TensorType:
        require_float(x, "x")
        return x

    return _declared(name, lower, doc, gradient, facts, TRANSCENDENTAL, infer)


def predicate(name: str, lower: Callable[..., Any], doc: str) -> Op:
    """A question to each element, answered by a bool."""

    def infer(x: TensorType) -> TensorType:
        return with_dtype(x, "bool")

    return _declared(name, lower, doc, ZERO_GRADIENT, None, ELEMENTWISE, infer)


def _declared(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    gradient: GradientRule | NoGradient,
    facts: Mapping[str, Any] | None,
    cost: CostRule,
    infer: Callable[[TensorType], TensorType],
) -> Op:
    infer.__doc__ = doc
    return op(
        f"relax.{name}",
        lower=lower,
        gradient=gradient,
        precision="follow",
        fusion="elementwise",
        facts={"elementwise": True, **(facts or {})},
        cost=cost,
    )(infer)


def _one_minus_square(g: Expr, x: Expr) -> Expr:
    return scalar(1, g) - x * x


def _one_plus_square(g: Expr, x: Expr) -> Expr:
    return scalar(1, g) + x * x


def _rounding(name: str, function: Callable[..., Any], doc: str, **facts: Any) -> Op:
    """`function` where there is something to round, nothing on integers and bools."""

    def rounded(x: Any) -> Any:
        return function(x) if jnp.issubdtype(x.dtype, jnp.floating) else x

    facts = {"idempotent": True, **facts, "jumps": True}
    return elementwise(name, rounded, doc, ZERO_GRADIENT, facts)


def _abs(x: Any) -> Any:
    """Bools and unsigned integers have no sign."""
    is_signed = jnp.issubdtype(x.dtype, jnp.signedinteger)
    return lax.abs(x) if is_signed or jnp.issubdtype(x.dtype, jnp.inexact) else x


def _negative(x: Any) -> Any:
    return x if x.dtype == bool else lax.neg(x)


def _abs_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * where(x < scalar(0, x), -scalar(1, x), scalar(1, x))


def _sqrt_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return scalar(0.5, x) * g / y


def _rsqrt_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return scalar(-0.5, x) * g * (y / x)


def _tan_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * _one_plus_square(g, y)


def _erf_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * (scalar(1.1283791670955126, x) * call("exp", -(x * x)))


def _acosh_gradient(g: Expr, y: Expr, x: Expr) -> Expr:
    """Not of sqrt(x * x - 1), which overflows for large x."""
    one = scalar(1, x)
    return g * call("rsqrt", x - one) * call("rsqrt", x + one)


abs = elementwise(
    "abs",
    _abs,
    "Absolute value: y = |x|.",
    _abs_gradient,
    {"even": True, "homogeneous": True, "nonnegative": True, "turns": True},
)
acos = float_only(
    "acos",
    jnp.arccos,
    "Inverse cosine, in [0, pi].",
    lambda g, y, x: -g * call("rsqrt", _one_minus_square(g, x)),
)
acosh = float_only("acosh", jnp.arccosh, "Inverse hyperbolic cosine, for x >= 1.", _acosh_gradient)
asin = float_only(
    "asin",
    jnp.arcsin,
    "Inverse sine, in [-pi/2, pi/2].",
    lambda g, y, x: g * call("rsqrt", _one_minus_square(g, x)),
    {"odd": True},
)
asinh = float_only(
    "asinh",
    jnp.arcsinh,
    "Inverse hyperbolic sine.",
    lambda g, y, x: g * call("rsqrt", _one_plus_square(g, x)),
    {"odd": True},
)
atan = float_only(
    "atan",
    jnp.arctan,
    "Inverse tangent, in (-pi/2, pi/2).",
    lambda g, y, x: g / _one_plus_square(g, x),
    {"odd": True},
)
atanh = float_only(
    "atanh",
    jnp.arctanh,
    "Inverse hyperbolic tangent, for |x| < 1.",
    lambda g, y, x: g / _one_minus_square(g, x),
    {"odd": True},
)
ceil = _rounding("ceil", lax.ceil, "Rounded up.")
cos = float_only("cos", lax.cos, "Cosine.", lambda g, y, x: -g * call("sin", x), {"even": True})
cosh = float_only(
    "cosh", jnp.cosh, "Hyperbolic cosine.", lambda g, y, x: g * call("sinh", x), {"even": True}
)
erf = float_only(
    "erf",
    lax.erf,
    "Error function: y = 2 / sqrt(pi) * integral of exp(-t * t) from 0 to x.",
    _erf_gradient,
    {"odd": True},
)
exp = float_only(
    "exp",
    lax.exp,
    "Exponential: y = e ** x.",
    lambda g, y, x: g * y,
    {"inverse": "relax.log", "nonnegative": True},
)
floor = _rounding("floor", lax.floor, "Rounded down.")
log = float_only("log", lax.log, "Natural logarithm.", lambda g, y, x: g / x)
negative = elementwise(
    "negative",
    _negative,
    "Negation: y = -x.",
    lambda g, y, x: -g,
    {"involution": True, "odd": True, "linear": True},
    of_complex=True,
)
round = _rounding("round", jnp.round, "Rounded to the nearest integer, a half to the even one.")
rsqrt = float_only(
    "rsqrt",
    lax.rsqrt,
    "Reciprocal of the square root: y = 1 / sqrt(x).",
    _rsqrt_gradient,
    {"nonnegative": True},
)
sigmoid = float_only(
    "sigmoid",
    lax.logistic,
    "Logistic function: y = 1 / (1 + exp(-x)).",
    lambda g, y, x: g * y * (scalar(1, x) - y),
    {"nonnegative": True},
)
sign = elementwise(
    "sign",
    lambda x: x if x.dtype == bool else lax.sign(x),
    "Sign: -1, 0 or 1.",
    ZERO_GRADIENT,
    {"idempotent": True, "odd": True, "jumps": True},
)
sin = float_only("sin", lax.sin, "Sine.", lambda g, y, x: g * call("cos", x), {"odd": True})
sinh = float_only(
    "sinh", jnp.sinh, "Hyperbolic sine.", lambda g, y, x: g * call("cosh", x), {"odd": True}
)
sqrt = float_only(
    "sqrt", lax.sqrt, "Square root, for x >= 0.", _sqrt_gradient, {"nonnegative": True}
)
square = elementwise(
    "square",
    lambda x: x * x,
    "Square: y = x * x.",
    lambda g, y, x: scalar(2, x) * g * x,
    {"even": True, "nonnegative": True},
    of_complex=True,
)
tan = float_only("tan", lax.tan, "Tangent.", _tan_gradient, {"odd": True})
tanh = float_only(
    "tanh",
    lax.tanh,
    "Hyperbolic tangent.",
    lambda g, y, x: g * (scalar(1, x) - y * y),
    {"odd": True},
)
trunc = _rounding("trunc", jnp.trunc, "Rounded towards zero.", odd=True)

isfinite = predicate("isfinite", jnp.isfinite, "Whether x is neither infinite nor NaN.")
isinf = predicate("isinf", jnp.isinf, "Whether x is infinite.")
isnan = predicate("isnan", jnp.isnan, "Whether x is NaN.")

logical_not = elementwise("logical_not", jnp.logical_not, "Whether x is false (0).", ZERO_GRADIENT)


@op(
    "relax.bitwise_not",
    lower=jnp.bitwise_not,
    gradient=ZERO_GRADIENT,
    precision="follow",
    fusion="elementwise",
    facts={"elementwise": True, "involution": True},
    cost=ELEMENTWISE,
)
def bitwise_not(x: TensorType) -> TensorType:
    """Every bit turned over."""
    if is_smooth(x.dtype):
        raise OpError(f"`x` must have an integer dtype or bool, found {x.dtype}")
    return x


def _clip(x: Any, min: Any, max: Any) -> Any:
    return lax.clamp(_bound(min, x.dtype), x, _bound(max, x.dtype))


def _bound(bound: Any, dtype: Any) -> Any:
    """A bound in a tensor's dtype: of integers the nearest one, of an infinity too."""
    if not isinstance(bound, int | float):  # a number that is traced, or of numpy's
        return jnp.asarray(bound).astype(dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        limits = np.iinfo(np.dtype(dtype))
        bound = limits.min if bound < limits.min else limits.max if bound > limits.max else bound
    return np.asarray(bound).astype(dtype)  # as 64 bits in between, whatever JAX has


def _clip_gradient(g: Expr, y: Expr, x: Expr, min: Expr, max: Expr) -> tuple[Expr, None, None]:
    """The adjoint where x lies strictly inside the bounds, as for relu."""
    above, below = x > host_scalar(min, x), x < host_scalar(max, x)
    return where(call("logical_and", above, below), g, scalar(0, g)), None, None


@op(
    "relax.clip",
    lower=_clip,
    gradient=_clip_gradient,
    precision="follow",
    fusion="elementwise",
    facts={"elementwise": True, "turns": True},
    cost=per_element(2),
)
def clip(x: TensorType, min: PrimType, max: PrimType) -> TensorType:
    """Bounded from below and above: y = min(max(x, lower), upper)."""
    require_real(x=x)
    require_numbers("x", x)
    return x
