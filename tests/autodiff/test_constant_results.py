"""Functions inside a loss that return a number beside what they compute, as layers do."""

from collections.abc import Callable, Iterator
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax

X = np.linspace(0.1, 1.0, 3, dtype="float32")


def by_jvp(function: Callable[..., Any]) -> Callable[..., Any]:
    made = jax.custom_jvp(function)
    made.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
    return made


def by_vjp(function: Callable[..., Any]) -> Callable[..., Any]:
    made = jax.custom_vjp(function)
    made.defvjp(lambda x: jax.vjp(function, x), lambda pull, g: pull(g))
    return made


def of_layer(layer: Callable[..., Any]) -> Callable[..., Any]:
    def loss(x: Any) -> Any:
        hidden, beside = layer(x)
        return jnp.sum(hidden) * jnp.sum(beside).astype("float32") + jnp.sum(x**2)

    return loss


def check(layer: Callable[..., Any]) -> None:
    loss = of_layer(layer)
    expected = jax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss)(X), expected, rtol=1e-6)


@pytest.mark.parametrize("number", [0.0, 3, np.ones(2, "float32")])
@pytest.mark.parametrize("around", [jax.jit, jax.checkpoint, by_jvp, by_vjp])
def test_a_layer_that_returns_a_number(around: Callable[..., Any], number: Any) -> None:
    check(around(lambda x: (jnp.tanh(x), number)))


@pytest.fixture
def newer_checkpoints() -> Iterator[None]:
    before = jax.config.values["jax_remat3"]
    jax.config.update("jax_remat3", True)
    yield
    jax.config.update("jax_remat3", before)


@pytest.mark.skipif("jax_remat3" not in jax.config.values, reason="this JAX has no such switch")
@pytest.mark.usefixtures("newer_checkpoints")
@pytest.mark.parametrize("number", [0.0, 3])
def test_numbers_of_checkpoints_as_newer_jax_has_them(number: Any) -> None:
    check(jax.checkpoint(lambda x: (jnp.tanh(x), number)))


@pytest.mark.parametrize("around", [by_jvp, by_vjp])
def test_numbers_that_are_folded_while_jax_maps(around: Callable[..., Any]) -> None:
    """JAX computes nothing at once where it maps a function with a rule."""
    loss = jax.jit(of_layer(around(lambda x: (jnp.tanh(x), np.ones(2, "float32")))))
    second = jax.jacfwd(relaxjax.grad(loss))(X)
    chex.assert_trees_all_close(second, jax.hessian(loss)(X), rtol=1e-5, atol=1e-6)


def test_only_numbers() -> None:
    check(jax.jit(lambda x: (2.0, 3.0)))
