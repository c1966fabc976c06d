"""The dtypes that a tensor may have, by name."""

import functools
from typing import Any

import ml_dtypes
import numpy as np

# What TVM's users write for short.
_SHORT = {"float": "float32", "int": "int32"}
_FAMILIES = ("bool", "int", "uint", "float", "bfloat", "complex")


@functools.cache
def checked_dtype(name: str) -> str:
    """The full name of a dtype; a name that is none is an error. Keys are JAX's: `key<fry>`."""
    name = _SHORT.get(name, name)
    if name.startswith("key<"):
        return name
    found = named_dtype(name).name
    if found != name:
        raise TypeError(f"there is no dtype `{name}`: write `{found}`")
    return name


def named_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a name, the `ml_dtypes` ones (bfloat16, float8, int4) included."""
    try:
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise TypeError(f"there is no dtype `{name}`") from None
    if not found.name.startswith(_FAMILIES):
        raise TypeError(f"there is no dtype `{name}` for tensors")
    return found
