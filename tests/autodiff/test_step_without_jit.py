"""Training steps under `jax.disable_jit`, between others that take the memory of their state."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
import pytest

import relaxjax

PARAMS = {"w": jnp.ones((3, 2))}
BATCH = jnp.arange(12.0).reshape(4, 3) / 10


def loss(params: Any, state: Any, batch: Any) -> Any:
    """Its new state is the batch, and twice the same zeros."""
    del state
    zeros = jnp.zeros(3)
    return jnp.mean((batch @ params["w"]) ** 2), ({"last": batch, "a": zeros, "b": zeros}, None)


STATE = {"last": jnp.zeros((4, 3)), "a": jnp.zeros(3), "b": jnp.zeros(3)}
OPTIMIZERS = {
    "factors of one row": optax.adafactor(0.1),  # which are two arrays of one zero
    "a schedule": optax.inject_hyperparams(optax.adam)(optax.linear_schedule(0.1, 0.01, 5)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_jit(name: str) -> None:
    def after(disabled: tuple[bool, ...]) -> Any:
        with jax.disable_jit(disabled[0]):
            init, step = relaxjax.train_step(loss, OPTIMIZERS[name])
            state = init(PARAMS, STATE)
        for is_disabled in disabled:
            with jax.disable_jit(is_disabled):
                state, _ = step(state, BATCH)
        return state.params, state.opt_state

    mixed = after((True, True, False, True))
    chex.assert_trees_all_close(mixed, after((False,) * 4), rtol=1e-5)
    assert not BATCH.is_deleted()
