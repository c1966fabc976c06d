"""A net of two layers in JAX, its loss, parameters and a batch: what training steps are made of."""

from typing import Any

import jax.numpy as jnp
from adjoint_checks import signed_array

PARAMS = {"w0": signed_array(8, 16), "b0": jnp.zeros((1, 16)), "w1": signed_array(16, 3, seed=1)}
BATCH = signed_array(32, 8, seed=2), signed_array(32, 3, seed=3)


def loss(params: Any, batch: Any) -> Any:
    inputs, targets = batch
    hidden = jnp.tanh(inputs @ params["w0"] + params["b0"])
    return jnp.mean((hidden @ params["w1"] - targets) ** 2)
