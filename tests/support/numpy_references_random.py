"""What the random operators draw: the numbers of jax.random for the same key."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def key(seed: Any, impl: str = "threefry2x32") -> Any:
    return jax.random.key(seed, impl=impl)


def _spread(bound: Any, shape: Any, dtype: Any) -> Any:
    return jnp.broadcast_to(jnp.asarray(bound).astype(dtype), shape)


def uniform(key: Any, shape: Any, low: Any = 0.0, high: Any = 1.0, dtype: str = "float32") -> Any:
    bounds = (_spread(bound, shape, dtype) for bound in (low, high))
    return jax.random.uniform(key, shape, dtype, *bounds)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    p = np.float32(p) if isinstance(p, float) else p
    return jax.random.bernoulli(key, _spread(p, np.shape(p) if shape is None else shape, p.dtype))


def randint(key: Any, shape: Any, low: Any, high: Any, dtype: str = "int32") -> Any:
    return jax.random.randint(key, shape, low, high, dtype)


def categorical(key: Any, logits: Any, shape: Any = None, axis: int = -1) -> Any:
    return jax.random.categorical(key, jnp.asarray(logits), axis, shape)


RANDOM: dict[str, Callable[..., Any]] = {
    "relax.random.key": key,
    "relax.random.split": lambda key, num=2: jax.random.split(key, num),
    "relax.random.fold_in": jax.random.fold_in,
    "relax.random.uniform": uniform,
    "relax.random.normal": lambda key, shape, dtype="float32": jax.random.normal(key, shape, dtype),
    "relax.random.bernoulli": bernoulli,
    "relax.random.randint": randint,
    "relax.random.categorical": categorical,
}
