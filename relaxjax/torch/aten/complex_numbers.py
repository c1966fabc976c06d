"""Functions of complex numbers, as JAX has them, for Relax has those of real ones."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import dtype_of

from .promotion import kind_of
from .table import traced

_COMPLEX = 3  # the kind of complex numbers


def is_complex(x: Expr) -> bool:
    return kind_of(dtype_of(x)) == _COMPLEX


def _sinc(x: Any) -> Any:
    """Near 0, where the quotient has no value, by the first terms of the series."""
    turned = x * x.dtype.type(math.pi)
    is_small = lax.abs(turned) < (1e-2 if x.dtype == "complex64" else 1e-3)
    apart = lax.select(is_small, lax.full_like(turned, 1), turned)
    square = turned * turned
    near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42))
    return lax.select(is_small, near, lax.sin(apart) / apart)


def _by(factor: float, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x) * x.dtype.type(factor)


_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "acos": lax.acos,
    "acosh": lax.acosh,
    "asin": lax.asin,
    "asinh": lax.asinh,
    "atan": lax.atan,
    "atanh": lax.atanh,
    "cos": lax.cos,
    "cosh": lax.cosh,
    "exp": lax.exp,
    "exp2": lambda x: lax.exp(x * x.dtype.type(math.log(2))),
    "expm1": lax.expm1,
    "log": lax.log,
    "log10": _by(1 / math.log(10), lax.log),
    "log1p": lax.log1p,
    "log2": _by(1 / math.log(2), lax.log),
    "rsqrt": lambda x: 1 / lax.sqrt(x),
    "sigmoid": lax.logistic,
    "sin": lax.sin,
    "sinc": _sinc,
    "sinh": lax.sinh,
    "sqrt": lax.sqrt,
    "tan": lax.tan,
    "tanh": lax.tanh,
}


def of_complex(operator: str, x: Expr) -> Expr:
    """What a function of real numbers is of complex ones."""
    if operator not in _FUNCTIONS:
        raise ValueError(
            f"`{operator}` of complex numbers is not there here: say it of their parts"
        )
    return traced(_FUNCTIONS[operator], x)


def power(x: Expr, exponent: Expr) -> Expr:
    return traced(lax.pow, x, exponent)


def unit(x: Expr) -> Expr:
    """The direction of each number, as one of the size 1; 0 of 0, and without a slope there."""

    def direction(z: Any) -> Any:
        is_zero = z == 0
        apart = lax.select(is_zero, lax.full_like(z, 1), z)
        real, imag = lax.real(apart), lax.imag(apart)
        size = lax.sqrt(real * real + imag * imag)
        found = lax.complex(real / size, imag / size)
        return lax.select(is_zero, lax.full_like(z, 0), found)

    return traced(direction, x)
