"""Quotients, remainders and powers of integers, defined for all of them.

XLA computes what it knows while it compiles, and a division by 0 ends the process there. When the
program runs it gives -1 for x / 0 and x for the remainder, and so do these.
"""

from typing import Any

import jax.numpy as jnp
from jax import lax


def quotient(x: Any, y: Any) -> Any:
    """x / y, cut off towards zero; all bits set, which is -1, for y = 0."""
    x, y, is_zero = _divisible(x, y)
    return lax.select(is_zero, jnp.bitwise_not(jnp.zeros_like(x)), lax.div(x, y))


def remainder(x: Any, y: Any) -> Any:
    """x - trunc(x / y) * y, which is x for y = 0."""
    x, y, is_zero = _divisible(x, y)
    return lax.select(is_zero, x, lax.rem(x, y))


def quotient_rounded_down(x: Any, y: Any) -> Any:
    """floor(x / y); as `quotient` for y = 0."""
    x, y, is_zero = _divisible(x, y)
    return lax.select(is_zero, jnp.bitwise_not(jnp.zeros_like(x)), jnp.floor_divide(x, y))


def power(x: Any, y: Any) -> Any:
    """x ** y modulo 2 ** bits, by squaring; 1 / x ** -y, cut off towards zero, for y < 0."""
    x, y = jnp.broadcast_arrays(x, y)
    one = jnp.ones_like(y)

    def multiply(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        result, square, left = state
        result = jnp.where(left & one == one, result * square, result)
        return result, square * square, lax.shift_right_logical(left, one)

    exponents = y if jnp.issubdtype(y.dtype, jnp.unsignedinteger) else lax.abs(y)
    start = jnp.ones_like(x), x, exponents
    result, _, _ = lax.while_loop(lambda state: jnp.any(state[2] != 0), multiply, start)
    if exponents is y:
        return result
    is_unit = (x == 1) | (x == -1)
    return jnp.where((y < 0) & ~is_unit, jnp.where(x == 0, -1, 0).astype(x.dtype), result)


def _divisible(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Both in one shape, y without zeros, and where there were some."""
    x, y = jnp.broadcast_arrays(x, y)
    is_zero = y == 0
    return x, jnp.where(is_zero, jnp.ones_like(y), y), is_zero
