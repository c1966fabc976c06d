"""Loops in JAX of which only the running program knows how long they are."""

from collections.abc import Callable
from typing import Any

from jax import lax


def steps(n: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`step(number, carry)`, so many times, from a carry to start with."""

    def body(carry: Any) -> Any:
        number, rest = carry
        return number + 1, step(number, rest)

    return lax.while_loop(lambda carry: carry[0] < n, body, (0, start))[1]
