"""Losses in JAX that trainers are made of, with parameters, batches and a state."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from relaxjax import Trainer
from relaxjax.training import Lines

KEYS = jax.random.split(jax.random.key(0), 4)
PARAMS = {
    "w0": jax.random.normal(KEYS[0], (8, 16)),
    "b0": jnp.zeros((1, 16)),
    "w1": jax.random.normal(KEYS[1], (16, 3)),
}
BATCH: dict[str, Any] = {
    "x": np.asarray(jax.random.normal(KEYS[2], (32, 8))),
    "y": np.asarray(jax.random.normal(KEYS[3], (32, 3))),
}
STATE = {"mean": jnp.zeros(16), "calls": jnp.int32(0)}
QUIET = Lines(lambda line: None)


def model(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w0"] + params["b0"]) @ params["w1"]


def loss(params: Any, batch: Any) -> Any:
    return jnp.mean((model(params, batch["x"]) - batch["y"]) ** 2)


def whole_loss(params: Any, state: Any, batch: Any, key: Any) -> Any:
    """With running means, dropout by a key, and more beside the loss."""
    hidden = jnp.tanh(batch["x"] @ params["w0"] + params["b0"])
    new = {"mean": 0.9 * state["mean"] + 0.1 * hidden.mean(0), "calls": state["calls"] + 1}
    kept = jnp.where(jax.random.bernoulli(key, 0.8, hidden.shape), hidden / 0.8, 0.0)
    value = jnp.mean((kept @ params["w1"] - batch["y"]) ** 2)
    return value, (new, {"rmse": jnp.sqrt(value), "hidden": hidden, "loss": value})


def trainer_of_all(optimizer: Any, **options: Any) -> Trainer:
    given: dict[str, Any] = {
        "model_state": STATE,
        "key": jax.random.key(3),
        "has_aux": True,
        **options,
    }
    return Trainer.from_jax(whole_loss, PARAMS, optimizer, BATCH, **given)


def batches(count: int) -> list[Any]:
    return [jax.tree.map(lambda array, i=i: array * (1 + i / 10), BATCH) for i in range(count)]


def plain(**options: Any) -> Trainer:
    return Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), BATCH, **options)
