"""What goes back from the results of functions with rules: those that a gradient comes by."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax

X = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(2, 3)


def test_nothing_goes_back_from_results_that_nobody_asks_for_or_that_count() -> None:
    """Where examples have a result alike, newer JAX refuses to share out what goes back from it."""

    @jax.custom_vjp
    def shared(x: jax.Array, y: jax.Array) -> Any:
        return x * y, jnp.cos(x), jnp.int32(2)

    shared.defvjp(
        lambda x, y: (shared(x, y), (x, y)), lambda kept, g: (g[0] * kept[1], g[0] * kept[0])
    )

    def loss(x: jax.Array) -> jax.Array:
        def of_one(row: jax.Array) -> Any:
            product, _, count = shared(x[0, 0], row)
            return product * count.astype("float32")

        return jnp.sum(jax.vmap(of_one)(x[1]))

    found, expected = relaxjax.value_and_grad(loss)(X), jax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(found, expected, rtol=1e-6)


@jax.custom_vjp
def _alike(x: jax.Array, y: jax.Array) -> Any:
    return x * y, jnp.cos(x)


_alike.defvjp(lambda x, y: (_alike(x, y), (x, y)), lambda kept, g: (g[0] * kept[1], g[0] * kept[0]))

# What a gradient does not go through.
STOPS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "stop": jax.lax.stop_gradient,
    "round": jnp.round,
    "count": lambda x: x.astype("int32").astype("float32"),
    "compare": lambda x: jnp.where(x > 0, 1.0, 2.0),
    "branch": lambda x: jax.lax.cond(x > 0, jax.lax.stop_gradient, jnp.floor, x),
    "call": lambda x: jax.jit(jax.lax.stop_gradient)(x),
    "loop": lambda x: jax.lax.fori_loop(0, 2, lambda _, c: c + jax.lax.stop_gradient(x), 0.0),
}


@pytest.mark.parametrize("name", STOPS)
def test_nothing_goes_back_from_results_that_are_behind_a_stop(name: str) -> None:
    """Newer JAX refuses a rule that is asked for what examples have alike."""

    def loss(x: jax.Array) -> Any:
        def of_one(row: jax.Array) -> Any:
            product, alike = _alike(x[0, 0], row)
            return product * STOPS[name](alike), alike

        products, beside = jax.vmap(of_one, out_axes=(0, None))(x[1])
        return jnp.sum(products), beside

    found = relaxjax.value_and_grad(loss, has_aux=True)(X)
    chex.assert_trees_all_close(found, jax.value_and_grad(loss, has_aux=True)(X), rtol=1e-6)


@jax.custom_vjp
def _pair(x: jax.Array) -> Any:
    return jnp.sin(x), jnp.cos(x)


_pair.defvjp(lambda x: (_pair(x), x), lambda x, g: (3 * g[0] + 5 * g[1],))


def _in_two_calls(x: jax.Array) -> jax.Array:
    """A result that the one call stops and the other does not."""
    both = jax.jit(_pair)
    stopped, through = both(x), both(x + 1)
    return jnp.sum(jax.lax.stop_gradient(stopped[1]) * stopped[0]) + jnp.sum(through[1])


def _at_the_next_step(x: jax.Array) -> jax.Array:
    """The second result comes to the end by way of the carry of the step behind."""

    def step(carry: Any, row: jax.Array) -> Any:
        first, second = carry
        one, other = _pair(second * row)
        return (first + jnp.sum(second), one + jax.lax.stop_gradient(other)), None

    (total, _), _ = jax.lax.scan(step, (jnp.zeros(()), jnp.ones(3)), x)
    return total


def _around_a_loop(x: jax.Array) -> jax.Array:
    """A loop uses the results without being handed them."""
    one, other = _pair(x[0])

    def step(carry: jax.Array, row: jax.Array) -> Any:
        return carry * one + row, jnp.sum(other * carry)

    last, sums = jax.lax.scan(step, jnp.ones(3), x)
    return jnp.sum(jax.lax.stop_gradient(last)) + jnp.sum(sums)


def _through_another_rule(x: jax.Array) -> jax.Array:
    one, other = _pair(x)
    return jnp.sum(jax.nn.relu(_pair(other)[1])) + jnp.sum(jax.lax.stop_gradient(_pair(one)[0]))


def _in_a_choice(x: jax.Array) -> jax.Array:
    one, other = _pair(x)
    return jnp.sum(jax.lax.cond(x[0, 0] < 0, lambda a, b: a, lambda a, b: b + a, one, other))


@pytest.mark.parametrize(
    "loss", [_in_two_calls, _at_the_next_step, _around_a_loop, _through_another_rule, _in_a_choice]
)
def test_what_is_reached_in_one_way_or_another_comes_back(loss: Callable[..., Any]) -> None:
    found, expected = relaxjax.value_and_grad(loss)(X), jax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(found, expected, rtol=1e-5)
