"""Magnitudes with the gradients that PyTorch has at 0, where there are several or none."""

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call, dtype_of, scalar, where

from .complex_numbers import is_complex
from .promotion import OF_FLOATS, kind_of


def squared(x: Expr) -> Expr:
    """The square of a real number, or of the size of a complex one."""
    if not is_complex(x):
        return call("square", x)
    real, imag = (call("square", get_op(f"lax.{part}")(x)) for part in ("real", "imag"))
    return real + imag


def magnitude(x: Expr) -> Expr:
    """The absolute value, whose gradient is 0 at 0 and at what is no number."""
    if is_complex(x):
        return root(squared(x), 2)
    if kind_of(dtype_of(x)) != OF_FLOATS:
        return call("abs", x)
    zero = scalar(0, x)
    flat = call("abs", call("grad.no_grad", x))
    return where(x > zero, x, where(x < zero, -x, flat))


def root(total: Expr, power: float) -> Expr:
    """That root of a sum of powers; its gradient is 0 where the sum is 0."""
    zero, one = scalar(0, total), scalar(1, total)
    is_zero = call("equal", total, zero)
    above = where(is_zero, one, total)
    found = call("sqrt", above) if power == 2 else call("power", above, scalar(1 / power, total))
    return where(is_zero, zero, found)


def powers(x: Expr, power: float) -> Expr:
    """Magnitudes to a power above 0; the gradient is 0 at 0, also of a power below 1."""
    zero, one = scalar(0, x), scalar(1, x)
    is_zero = call("equal", x, zero)
    above = call("abs", where(is_zero, one, x))
    return where(is_zero, zero, call("power", above, scalar(power, x)))
