"""Arrays rearranged by numpy where they lie in memory of the host.

JAX would compile a program for each shape there is, which takes longer than to start a trainer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.dtypes import canonicalize_dtype, extended


def rearranged(change: Callable[..., Any], *arrays: Any) -> Any:
    """What a change makes of arrays, which takes numpy's or JAX's and only moves their numbers.

    Of arrays of JAX's it is one, where they are, and has memory of its own.
    """
    if is_numpy(arrays) or not all(map(_is_on_host, arrays)):
        return change(*arrays)
    moved = np.array(change(*map(np.asarray, arrays)), order="C")
    first = next(array for array in arrays if isinstance(array, jax.Array))
    return jax.device_put(moved, first.sharding if first.committed else None)


def is_numpy(arrays: Sequence[Any]) -> bool:
    return all(isinstance(array, np.ndarray) for array in arrays)


def _is_on_host(array: Any) -> bool:
    """Whether numpy can read the memory of an array, and JAX take its numbers back as they are."""
    if isinstance(array, np.ndarray):
        return True
    if isinstance(array, Tracer) or not isinstance(array, jax.Array):
        return False
    if jnp.issubdtype(array.dtype, extended) or canonicalize_dtype(array.dtype) != array.dtype:
        return False  # random keys, and 64 bits where these are switched off
    devices: list[Any] = list(array.sharding.device_set)
    return len(devices) == 1 and devices[0].platform == "cpu"
