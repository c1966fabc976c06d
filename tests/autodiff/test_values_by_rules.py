"""What a rule of `jax.custom_vjp` gives for its function, where nothing comes back to that."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import relaxjax
from relaxjax.training import Trainer

X = np.arange(3, dtype="float32")


@jax.custom_vjp
def total(x: Any) -> Any:
    return jnp.sum(x) * 2


def forward(x: Any) -> Any:
    return jnp.sum(x) * 3, x


total.defvjp(forward, lambda x, g: (g * jnp.ones_like(x) * 5,))


def in_a_loop(x: Any) -> Any:
    return jax.lax.scan(lambda carry, row: (carry + total(row[None] * carry), total(row)), 1.0, x)


BESIDE: dict[str, Callable[[Any], Any]] = {
    "plain": total,
    "in a branch": lambda x: jax.lax.cond(x[1] > 0, total, lambda x: total(x) + 1, x),
    "mapped": lambda x: jax.vmap(total)(x[:, None]),
    "in a loop": in_a_loop,
    "of what stays": lambda x: (total(jax.lax.stop_gradient(x)), total(jnp.round(x))),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_is_beside_a_loss_is_as_jax_has_it(name: str) -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(x**2), BESIDE[name](x)

    expected = jax.value_and_grad(loss, has_aux=True)(X)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss, has_aux=True)(X), expected)


def test_a_value_behind_a_stop() -> None:
    def loss(x: Any) -> Any:
        return total(x) + jax.lax.stop_gradient(total(x))

    chex.assert_trees_all_close(relaxjax.value_and_grad(loss)(X), jax.value_and_grad(loss)(X))


def test_an_evaluation_has_the_values_of_the_function() -> None:
    """It differentiates nothing, as the loss that is called outside of `jax.grad`."""

    def loss(x: Any, state: Any, batch: Any) -> Any:
        return jnp.sum(x**2) + jax.lax.stop_gradient(total(x)) + 0 * jnp.sum(batch), (
            total(x),
            None,
        )

    batch = np.ones((2, 1), "float32")
    trainer = Trainer.from_jax(loss, X, optax.sgd(0.0), batch, model_state=jnp.zeros(()))
    assert trainer.update(batch) == 14
    assert trainer.model_state == 9
    assert trainer.evaluate(batch)[0] == 11
