"""Random keys among a trainer's states: their first values, and their numbers in a file."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.ops.lax.avals import jax_dtype, key_implementation


def is_key(var: Var) -> bool:
    """Whether a variable is a random key."""
    return isinstance(var.ty, TensorType) and (var.ty.dtype or "").startswith("key<")


def key_of_seed(var: Var, seed: int, index: int) -> jax.Array:
    """The key of a seed, another one for each index."""
    key = jax.random.key(seed, impl=implementation(var))
    return jax.random.fold_in(key, index)


def as_key(kind: str, var: Var, value: Any) -> Any:
    """`value` as the key that `var` is: a key itself, or the numbers that make one."""
    assert isinstance(var.ty, TensorType)
    if getattr(value, "dtype", None) == jax_dtype(var.ty.dtype or ""):
        return value
    width = key_numbers(var)
    data = None if _is_any_key(value) else np.asarray(value)
    if data is None or data.dtype != np.uint32 or data.shape != width:
        raise TypeError(
            f"{kind} `{var.name}` is a random key: give it one, such as jax.random.key(0), or "
            f"the uint32 numbers of one in shape {width}"
        )
    return jax.random.wrap_key_data(jnp.asarray(data), impl=implementation(var))


def key_numbers(var: Var) -> tuple[int, ...]:
    """The shape of the numbers behind a key."""
    key = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=implementation(var))))
    return tuple(key.shape)


def _is_any_key(value: Any) -> bool:
    return str(getattr(value, "dtype", "")).startswith("key<")


def implementation(var: Var) -> str:
    """The name of a key's generator."""
    assert isinstance(var.ty, TensorType)
    return key_implementation(var.ty.dtype or "")
