"""Backbones and losses written in JAX, trained as by a loop by hand in JAX and optax."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import trainer_of

from relaxjax import TensorType, from_jax
from relaxjax.losses import from_jax as jax_loss
from relaxjax.optim import from_optax

X = np.sin(np.arange(24, dtype="float32")).reshape(4, 6)
Y = np.cos(np.arange(12, dtype="float32")).reshape(4, 3)
MASK = np.array([True, False, True, True])
PARAMS = [np.sin(np.arange(18, dtype="float32") + 3).reshape(6, 3), np.zeros(3, "float32")]


def chosen_by_data(x: Any, w: Any, b: Any) -> Any:
    hidden = x @ w + b[None]
    return jax.lax.cond(hidden.sum() > 0, jnp.tanh, lambda h: h * 2, hidden)


def chosen_in_a_loop(x: Any, w: Any, b: Any) -> Any:
    """One of three branches for each row, and one for all."""

    def step(total: Any, row: Any) -> Any:
        place, hidden = row
        by_place = [jnp.sin, jnp.cos, lambda h: h * b]
        total = total + jax.lax.switch(place, by_place, hidden)
        return total, total

    places = jnp.arange(4) % 3
    total, rows = jax.lax.scan(step, b, (places, x @ w))
    return rows + jax.lax.cond(x[0, 0] > 1, lambda t: t, lambda t: t**2, total)[None]


def masked(scores: Any, truth: Any, mask: Any) -> Any:
    return jnp.mean((scores - truth) ** 2, where=mask[:, None])


@pytest.mark.parametrize("model", [chosen_by_data, chosen_in_a_loop])
def test_weights_are_those_of_a_loop_by_hand(model: Callable[..., Any]) -> None:
    tx = optax.sgd(0.05, momentum=0.9)
    module = from_jax(model, X, *PARAMS, name="backbone")
    module = module.with_attr("param_num", 2).with_attr("state_num", 0)
    types = [TensorType(item.shape, str(item.dtype)) for item in (Y, Y, MASK)]
    trainer = trainer_of(module, jax_loss(masked), from_optax(tx), *types)
    trainer.load_params(PARAMS)

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        value, gradients = jax.value_and_grad(lambda p: masked(model(X, *p), Y, MASK))(params)
        updates, state = tx.update(gradients, state, params)
        return value, optax.apply_updates(params, updates), state

    params, state = list(map(jnp.asarray, PARAMS)), tx.init(PARAMS)
    for _ in range(3):
        value, params, state = step(params, state)
        chex.assert_trees_all_close(trainer.update([X], [Y, MASK]), value, rtol=1e-5)
    chex.assert_trees_all_close(list(trainer.export_params().values()), params, rtol=1e-4)
