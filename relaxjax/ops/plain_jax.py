"""Loops, and what has an effect, in plain JAX: a written program takes a copy of their text along.

So they need nothing but jax, numpy, the standard library and one another.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax


def scan(
    body: Callable[..., Any],
    *args: Any,
    length: Any,
    num_consts: int,
    num_carry: int,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, ...]:
    """`body(*consts, *carry, *x) -> (*carry, *y)` over the leading dimension of each x."""
    consts, carry = args[:num_consts], args[num_consts : num_consts + num_carry]

    def step(carry: Any, x: Any) -> Any:
        results = body(*consts, *carry, *x)
        return results[:num_carry], results[num_carry:]

    xs = args[num_consts + num_carry :]
    last, ys = lax.scan(step, carry, xs, length=length, reverse=reverse, unroll=unroll)
    return (*last, *ys)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    *args: Any,
    cond_consts: int,
    body_consts: int,
) -> tuple[Any, ...]:
    """`body(*consts, *carry) -> carry`, as long as `cond(*consts, *carry)` holds."""
    first = cond_consts + body_consts
    for_cond, for_body = args[:cond_consts], args[cond_consts:first]
    looped: tuple[Any, ...] = lax.while_loop(
        lambda carry: cond(*for_cond, *carry), lambda carry: body(*for_body, *carry), args[first:]
    )
    return looped


def while_any(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    *args: Any,
    cond_consts: int,
    body_consts: int,
) -> tuple[Any, ...]:
    """As `while_loop`, with a condition that holds for each element of the carry by itself."""
    first = cond_consts + body_consts
    for_cond, for_body = args[:cond_consts], args[cond_consts:first]

    def step(carry: Any) -> tuple[Any, ...]:
        going = cond(*for_cond, *carry)
        return tuple(
            jnp.where(lax.expand_dims(going, range(going.ndim, new.ndim)), new, old)
            for new, old in zip(body(*for_body, *carry), carry, strict=True)
        )

    looped: tuple[Any, ...] = lax.while_loop(
        lambda carry: jnp.any(cond(*for_cond, *carry)), step, args[first:]
    )
    return looped


def bounded_loop(
    cond: Callable[..., Any], body: Callable[..., Any], init: Any, max_iter: int
) -> Any:
    """`body(carry) -> carry`, as long as `cond(carry)` holds, `max_iter` times at most."""

    def goes_on(state: Any) -> Any:
        done, carry = state
        return jnp.logical_and(done < max_iter, cond(carry))

    def step(state: Any) -> Any:
        done, carry = state
        return done + jnp.int32(1), body(carry)

    return lax.while_loop(goes_on, step, (jnp.int32(0), init))[1]


def run_later(function: Callable[..., None], *values: Any) -> None:
    """Call `function` when the program runs, with what the arrays among the values are then."""
    leaves, structure = jax.tree.flatten(values)

    def run(*arrays: Any) -> None:
        rest = iter(arrays)
        known = (next(rest) if isinstance(x, jax.Array | np.ndarray) else x for x in leaves)
        function(*jax.tree.unflatten(structure, known))

    jax.debug.callback(run, *(x for x in leaves if isinstance(x, jax.Array | np.ndarray)))


def shown(value: Any) -> Any:
    """A value as it is printed: a tuple as the texts of its fields."""
    if not isinstance(value, tuple):
        return value
    fields = [str(shown(field)) for field in value]
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


def show(*values: Any, format: str = "") -> tuple[()]:
    """Write values to the standard output when the program runs."""

    def write(*given: Any) -> None:
        parts = list(map(shown, given))
        print(format.format(*parts) if format else " ".join(map(str, parts)))

    run_later(write, *values)
    return ()


def require(condition: Any, *values: Any, format: str = "") -> tuple[()]:
    """Raise where the condition does not hold: now if that is known, else when the program runs."""

    def check(holds: Any, *given: Any) -> None:
        if not holds:
            told = format.format(*map(shown, given)) if format else ""
            raise AssertionError(f"Assert Failed: {told}" if told else "Assert Failed")

    if isinstance(condition, jax.core.Tracer):
        run_later(check, condition, *values)
    else:
        check(condition, *values)
    return ()
