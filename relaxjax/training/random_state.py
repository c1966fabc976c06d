"""Random keys among a trainer's states: their first values, and their numbers in a file."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.ops.lax.avals import jax_dtype, key_implementation


def is_key(var: Var) -> bool:
    """Whether a variable is a random key, or an array of them."""
    return isinstance(var.ty, TensorType) and (var.ty.dtype or "").startswith("key<")


def key_of_seed(var: Var, shape: tuple[int, ...], seed: int, index: int) -> jax.Array:
    """The key of a seed, or an array of keys of it; another one for each index."""
    key = jax.random.fold_in(jax.random.key(seed, impl=implementation(var)), index)
    return jax.random.split(key, shape) if shape else key


def as_key(kind: str, var: Var, value: Any) -> Any:
    """`value` as the keys that `var` is: keys themselves, or the numbers that make them."""
    assert isinstance(var.ty, TensorType)
    if getattr(value, "dtype", None) == jax_dtype(var.ty.dtype or ""):
        return value
    data = None if _is_any_key(value) else np.asarray(value)
    if data is None or shape_of_keys(var, data) is None:
        what, one = ("random keys", "them") if var.ty.ndim else ("a random key", "one")
        made = "split(jax.random.key(0), 3)" if var.ty.ndim else "key(0)"
        raise TypeError(
            f"{kind} `{var.name}` is {what}: give it {one}, such as jax.random.{made}, or the "
            f"uint32 numbers of {one} in shape {(*(var.ty.dims or ()), *_numbers_of_one(var))}"
        )
    return jax.random.wrap_key_data(jnp.asarray(data), impl=implementation(var))


def shape_of_keys(var: Var, numbers: Any) -> tuple[int, ...] | None:
    """The shape of the keys that numbers make; None where they are no numbers of such keys."""
    own = _numbers_of_one(var)
    shape, last = numbers.shape[: -len(own)], numbers.shape[-len(own) :]
    return tuple(shape) if last == own and numbers.dtype == np.uint32 else None


def _numbers_of_one(var: Var) -> tuple[int, ...]:
    """The shape of the numbers behind one key."""
    key = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=implementation(var))))
    return tuple(key.shape)


def _is_any_key(value: Any) -> bool:
    return str(getattr(value, "dtype", "")).startswith("key<")


def implementation(var: Var) -> str:
    """The name of a key's generator."""
    assert isinstance(var.ty, TensorType)
    return key_implementation(var.ty.dtype or "")
