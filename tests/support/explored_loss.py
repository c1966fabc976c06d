"""A loss of a dozen layers, in a file that is short enough to be seen whole."""

from typing import Any

import jax.numpy as jnp


def loss(w: Any, x: Any) -> Any:
    for _ in range(12):
        product = x @ w
        x = jnp.tanh(product)
    return x.sum()
