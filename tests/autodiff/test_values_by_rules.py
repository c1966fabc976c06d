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
from relaxjax.passes import Gradient
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
    "while it holds": lambda x: jax.lax.while_loop(
        lambda state: state < 90, lambda state: state + total(x), 0.0
    ),
    "in the condition of a loop": lambda x: jax.lax.while_loop(
        lambda state: total(x) * state < 31, lambda state: state + 1, 0.0
    ),
    "of what stays": lambda x: (total(jax.lax.stop_gradient(x)), total(jnp.round(x))),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_is_beside_a_loss_is_as_jax_has_it(name: str) -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(x**2), BESIDE[name](x)

    expected = jax.value_and_grad(loss, has_aux=True)(X)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss, has_aux=True)(X), expected)


@pytest.mark.parametrize("name", BESIDE)
def test_an_adjoint_has_what_jax_has_beside_a_loss(name: str) -> None:
    """And the function itself, which is not differentiated, the value of its own."""

    def loss(x: Any) -> Any:
        return jnp.sum(x**2), BESIDE[name](x)

    mod = Gradient("main")(relaxjax.from_jax(loss, X))
    found = relaxjax.to_jax(mod, "main_adjoint")(X)
    expected = jax.value_and_grad(loss, has_aux=True)(X)
    chex.assert_trees_all_close(*map(jax.tree.leaves, (found, expected)))
    own = relaxjax.to_jax(mod, "main")(X)
    chex.assert_trees_all_close(*map(jax.tree.leaves, (own, loss(X))))


def test_an_adjoint_by_some_arguments() -> None:
    """What is made of others alone is not differentiated."""

    def loss(x: Any, y: Any) -> Any:
        return jnp.sum(x * y), total(x), total(y)

    mod = Gradient("main", "y")(relaxjax.from_jax(loss, X, X))
    (_, *beside), _ = relaxjax.to_jax(mod, "main_adjoint")(X, X)
    assert [float(one) for one in beside] == [6, 9]


def test_a_value_behind_a_stop() -> None:
    def loss(x: Any) -> Any:
        return total(x) + jax.lax.stop_gradient(total(x))

    expected = jax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss)(X), expected)
    value, (slope,) = relaxjax.to_jax(Gradient("main")(relaxjax.from_jax(loss, X)), "main_adjoint")(
        X
    )
    chex.assert_trees_all_close((value, slope), expected)


def saving(x: Any) -> Any:
    """A function whose rule runs the function itself where nothing needs what the rule keeps."""
    made = jax.custom_vjp(lambda x, y: jnp.sin(x) * y)
    made.defvjp(
        lambda x, y: (jnp.sin(x) * y, (x, y)),
        lambda kept, g: (jnp.cos(kept[0]) * kept[1] * g * 2, g * 3),
        optimize_remat=True,
    )
    return made(x, jnp.tanh(x))


SAVING: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: jnp.sum(saving(x)),
    "mapped": lambda x: jnp.sum(jax.vmap(saving)(x)),
    "in a checkpoint": lambda x: jnp.sum(jax.checkpoint(saving)(x) ** 2),
    "in a loop": lambda x: jax.lax.scan(lambda c, row: (saving(c + row), None), 1.0, x)[0],
    "in a branch": lambda x: jax.lax.cond(x[1] > 0, lambda x: jnp.sum(saving(x)), jnp.sum, x),
}


@pytest.mark.parametrize("name", SAVING)
def test_a_rule_that_saves_memory(name: str) -> None:
    loss = SAVING[name]
    expected = jax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss)(X), expected, rtol=1e-5)
    mod = Gradient("main")(relaxjax.from_jax(loss, X))
    value, (slope,) = relaxjax.to_jax(mod, "main_adjoint")(X)
    chex.assert_trees_all_close((value, slope), expected, rtol=1e-5)


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
