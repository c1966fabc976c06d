"""Factorizations whose derivatives take more factors than were asked for: once, as in JAX."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.passes import Jvp

MATRICES = np.random.default_rng(0).normal(size=(3, 4, 4)).astype("float32")


def singular(x: Any) -> Any:
    return jnp.sum(jnp.linalg.svdvals(x) ** 2 * jnp.arange(1.0, 5.0))


def eigen(x: Any) -> Any:
    return jnp.sum(jnp.abs(jnp.linalg.eigvals(x)) ** 1.5)


PARTS = {"svd": singular, "eig": eigen}


def looped(part: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loss(xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c + part(x * (1 + 1e-3 * c)), None), 0.0, xs)[0]

    return loss


def chosen(part: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda xs: jax.lax.cond(xs[0, 0, 0] > 0, lambda x: part(x[0]), lambda x: x[1, 0, 0], xs)


def marked(part: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda xs: jax.checkpoint(lambda x: jnp.sin(part(jnp.sin(x[0]))))(xs)


AROUND: dict[str, Callable[..., Any]] = {
    "plain": lambda part: lambda xs: part(xs[0]),
    "many": lambda part: lambda xs: jnp.sum(jax.vmap(part)(xs)),
    "loop": looped,
    "branch": chosen,
    "checkpoint": marked,
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", PARTS)
def test_gradients_are_those_of_jax(name: str, around: str) -> None:
    loss = AROUND[around](PARTS[name])
    found = relaxjax.value_and_grad(loss)(MATRICES)
    wanted = jax.value_and_grad(loss)(MATRICES)
    chex.assert_trees_all_close(found, wanted, rtol=1e-3, atol=1e-3)
    text = relaxjax.value_and_grad(loss).module(MATRICES).script()
    times = 2 if around == "checkpoint" else 1  # there they are asked for twice
    assert text.count(f"L.{name}(") == times


def test_what_nothing_comes_back_to_stays_as_it_is() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(x) * jax.lax.stop_gradient(singular(x))

    text = relaxjax.value_and_grad(loss).module(MATRICES[0]).script()
    assert text.count("L.svd(") == text.count("compute_uv=False") == 1


@pytest.mark.parametrize("name", PARTS)
def test_tangents_are_those_of_jax(name: str) -> None:
    x, direction = MATRICES[0], MATRICES[1]
    module = Jvp("main")(relaxjax.from_jax(PARTS[name], x))
    assert module["main_jvp"].script().count(f"L.{name}(") == 1
    found = relaxjax.to_jax(module, "main_jvp")(x, direction)
    chex.assert_trees_all_close(found, jax.jvp(PARTS[name], (x,), (direction,)), rtol=1e-4)


def test_second_derivatives_of_singular_values() -> None:
    def twice(grad: Any) -> Any:
        return grad(lambda x: jnp.vdot(grad(singular)(x), jnp.cos(x)))(MATRICES[0])

    chex.assert_trees_all_close(twice(relaxjax.grad), twice(jax.grad), rtol=1e-3)
