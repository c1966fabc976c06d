"""Cheaper approximations of functions that take many operations each."""

from collections.abc import Callable, Sequence

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ops.emit import call, scalar
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=4, kind="function")
def FastMath(function: Function, mod: IRModule) -> Function:
    """Approximate tanh, erf, sigmoid, silu and gelu on float32 by quotients of short polynomials.

    How far they are from the true values, at most: tanh 6e-5, sigmoid 3e-5, erf 8e-5; silu 3e-5 and
    gelu 4e-5, times |x| where that is more than 1. `benchmarks/passes.py FastMath` measures what
    they gain. Exp and softmax stay: nothing here computes an exponential faster than XLA does. Run
    Gradient before this pass, so that the backward program is that of the true functions.
    """
    return expand_calls(function, _approximation)


@pass_factory(opt_level=4)
def FastMathTransform(mod: IRModule) -> IRModule:
    """Approximate costly functions by shorter formulas: FastMath by the name it has in TVM."""
    return FastMath()(mod)


def _approximation(value: Call) -> Expr | None:
    rule = _RULES.get(value.op.name) if isinstance(value.op, Op) else None
    x = value.args[0] if value.args else None
    known = x is not None and known_dtype(x) == "float32"
    return rule(x) if rule is not None and x is not None and known else None


def _tanh(x: Expr) -> Expr:
    return _odd_quotient(x, 5.0, _TANH_ABOVE, _TANH_BELOW)


def _erf(x: Expr) -> Expr:
    return _odd_quotient(x, 2.9, _ERF_ABOVE, _ERF_BELOW)


def _sigmoid(x: Expr) -> Expr:
    half = scalar(0.5, x)
    return half * _tanh(x * half) + half


def _gelu(x: Expr) -> Expr:
    half = x * scalar(0.5, x)
    return half * (_erf(x * scalar(0.5**0.5, x)) + scalar(1, x))


def _odd_quotient(x: Expr, end: float, above: Sequence[float], below: Sequence[float]) -> Expr:
    """x p(x^2) / q(x^2) up to an end on both sides, and the value there behind it."""
    inside = call("clip", x, -end, end)
    square = inside * inside
    return inside * _polynomial(square, above) / _polynomial(square, below)


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """By Horner's rule, of coefficients that begin with the constant one."""
    *rest, highest = coefficients
    total: Expr = scalar(highest, x)
    for coefficient in reversed(rest):
        total = total * x + scalar(coefficient, x)
    return total


# Of these degrees, the quotients whose largest error up to the end is least: found by weighted
# least squares, each round of which gives the places of large errors more weight.
_TANH_ABOVE = (0.99981012, 0.10172274, 0.00065493227)
_TANH_BELOW = (1.0, 0.43450360, 0.012639063)
_ERF_ABOVE = (1.1281573, 0.19253944, 0.030333656)
_ERF_BELOW = (1.0, 0.50257972, 0.097133511, 0.0035196478)

_RULES: dict[str, Callable[[Expr], Expr]] = {
    "relax.erf": _erf,
    "relax.nn.gelu": _gelu,
    "relax.nn.silu": lambda x: x * _sigmoid(x),
    "relax.sigmoid": _sigmoid,
    "relax.tanh": _tanh,
}
