"""What a loss must return."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ARRAY = jax.Array | np.ndarray | np.generic


def check_result(result: Any, has_aux: bool) -> None:
    """A loss is one scalar of floating-point dtype, with `has_aux` before something else."""
    several = isinstance(result, tuple | list)
    if has_aux and not (several and len(result) == 2):
        found = f"{len(result)} results" if several else _described(result)
        raise TypeError(
            "with `has_aux` the function must return a pair, the loss and something else, but it "
            f"returned {found}"
        )
    loss = result[0] if has_aux else result
    if isinstance(loss, float):
        return
    is_array = isinstance(loss, _ARRAY)
    if not is_array or loss.shape != () or not jnp.issubdtype(loss.dtype, jnp.floating):
        raise TypeError(
            "a loss must be one scalar of floating-point dtype, but the function returned "
            + _described(loss)
            + _advice(loss, has_aux)
        )


def _advice(loss: Any, has_aux: bool) -> str:
    if isinstance(loss, _ARRAY) and jnp.issubdtype(loss.dtype, jnp.complexfloating):
        return ": take its real part or its absolute value"
    if isinstance(loss, _ARRAY) and jnp.issubdtype(loss.dtype, jnp.floating):
        return ": take its mean or its sum"
    return "" if has_aux else ": `has_aux=True` is for functions that return more"


def _described(result: Any) -> str:
    is_array = isinstance(result, _ARRAY)
    return f"{result.dtype} of shape {result.shape}" if is_array else type(result).__name__
