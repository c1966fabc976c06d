"""Ids in a batch, of classes or of rows: a strange one is an error before a step, not in it."""

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np


class Ids(Protocol):
    """The ids in one of several arrays."""

    @property
    def place(self) -> int: ...

    def check(self, array: Any) -> None: ...


def check_ids(ids: Sequence[Ids], arrays: Sequence[Any], count: int | None = None) -> None:
    """Look at the ids in arrays, with a `count` at those of the first so many batches.

    What is on another device stays there.
    """
    for one in ids:
        array = arrays[one.place]
        if is_on_host(array):
            held = np.asarray(array)
            one.check(held[:count] if held.ndim else held)


def are_below(array: Any, count: int) -> bool:
    """Whether all are 0 to `count` - 1, by one look: without a sign, those below 0 are large."""
    unsigned = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array
    return not array.size or int(unsigned.max()) < count


def span(strange: Any) -> str:
    """The least and the greatest of some ids."""
    return " to ".join(map(str, sorted({int(strange.min()), int(strange.max())})))


def is_on_host(array: Any) -> bool:
    """Whether the host can read it without a transfer."""
    if isinstance(array, np.ndarray):
        return True
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return False  # a random key
    return {device.platform for device in array.devices()} == {"cpu"}
