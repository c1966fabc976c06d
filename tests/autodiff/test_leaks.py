"""What JAX keeps of a traced call holds no traced values: `jax.checking_leaks` finds none."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax

W, X = np.eye(3, 2, dtype="float32"), np.ones((4, 3), "float32")


def loss(w: Any, x: Any) -> Any:
    return jnp.mean(jax.nn.relu(x @ w) ** 2)


def at_once(library: Any) -> Callable[..., Any]:
    both: Callable[..., Any] = library.value_and_grad(loss)
    return both


def around(library: Any) -> Callable[..., Any]:
    """A loss of the weights alone, with values from around it that are traced."""

    def value(w: Any, x: Any) -> Any:
        scaled = jnp.sin(x)
        return library.value_and_grad(lambda w: loss(w, scaled))(w)

    return value


def twice(library: Any) -> Callable[..., Any]:
    total: Callable[..., Any] = library.grad(lambda w, x: jnp.sum(library.grad(loss)(w, x)))
    return total


WAYS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "loss": at_once,
    "loss with values from around it": around,
    "gradient of a gradient": twice,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_loss_leaves_nothing_traced_behind(way: Callable[..., Any]) -> None:
    with jax.checking_leaks():
        found = jax.jit(way(relaxjax))(W, X)
    chex.assert_trees_all_close(found, jax.jit(way(jax))(W, X), rtol=1e-5)


@pytest.mark.parametrize("rule", [jax.nn.relu, jax.nn.logsumexp, jnp.linalg.inv])
def test_a_module_with_rules_leaves_nothing_traced_behind(rule: Callable[..., Any]) -> None:
    def total(square: Any) -> Any:
        return jnp.sum(rule(2 * square))

    square = np.eye(3, dtype="float32")
    run = relaxjax.to_jax(relaxjax.from_jax(total, square), "main")
    with jax.checking_leaks():
        found = jax.jit(jax.value_and_grad(run))(square)
    chex.assert_trees_all_close(found, jax.value_and_grad(total)(square), rtol=1e-5)
