"""The largest and the smallest elements along axes: NaN where an element is."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp

from .platform import Lowering, by_platform

# Of 2^12 such numbers and more, XLA's library for CPUs takes the extreme of those that are no NaN.
_BY_LIBRARY = ("float32", "float64")


def extreme(reduced: Callable[..., Any]) -> Lowering:
    """`jnp.max` or `jnp.min`, which give NaN for NaN."""
    return by_platform(reduced, cpu=partial(_on_cpu, reduced))


def _on_cpu(reduced: Callable[..., Any], x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    found = reduced(x, axis, keepdims=keepdims)
    if x.dtype not in _BY_LIBRARY:
        return found
    return jnp.where(jnp.any(jnp.isnan(x), axis, keepdims=keepdims), jnp.nan, found)
