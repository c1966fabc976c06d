"""Functions that a written program takes along as far as it calls them: their text is copied.

So they need nothing but jax, numpy, the standard library and one another.
"""

import base64
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Where each name from outside comes from: a module, and what of it. None is the module itself.
STANDARD = {
    "base64": ("base64", None),
    "math": ("math", None),
    "Callable": ("collections.abc", "Callable"),
    "Sequence": ("collections.abc", "Sequence"),
    "partial": ("functools", "partial"),
    "wraps": ("functools", "wraps"),
    "Any": ("typing", "Any"),
}
THIRD_PARTY = {
    "jax": ("jax", None),
    "jnp": ("jax.numpy", None),
    "np": ("numpy", None),
    "lax": ("jax", "lax"),
    "checkpoint_name": ("jax.ad_checkpoint", "checkpoint_name"),
    "primitives": ("jax.extend.core", "primitives"),
    "sparse": ("jax.experimental", "sparse"),
}


def with_x64(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, run with the 64-bit dtypes of JAX switched on."""

    @wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        with jax.enable_x64(True):
            return function(*args, **named)

    return run


def check_shapes(args: tuple[Any, ...], shapes: tuple[Any, ...]) -> None:
    """Raise where the shape of an argument, or of arrays in a tuple, is another than expected."""
    for number, (arg, shape) in enumerate(zip(args, shapes, strict=True), start=1):
        found = jax.tree.map(jnp.shape, arg) if shape is not None else None
        if found != shape:
            raise ValueError(f"argument {number} must be of shape {shape}, found {found}")


def expect(subject: str, found: Any, expected: Any) -> None:
    """Raise where something about a value is not as the program was told."""
    if found != expected:
        raise TypeError(f"{subject} must be {expected}, found {found}")


def stored(dtype: Any, shape: tuple[int, ...], text: str) -> np.ndarray[Any, Any]:
    """The array whose bytes stand in `text`, in base64."""
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)
