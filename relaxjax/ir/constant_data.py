"""The arrays of constants, made of what users write for them."""

from typing import Any

import numpy as np

from .dtypes import check_range, is_same

# What numpy makes of Python's numbers, and what a tensor program wants.
_PLAIN_DTYPES = {np.dtype("int64"): np.dtype("int32"), np.dtype("float64"): np.dtype("float32")}


def constant_data(value: Any, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    """The array of a value; without a dtype, Python's own numbers have 32 bits."""
    data = _as_array(value, dtype)
    plain = isinstance(value, int | float | list | tuple) and not isinstance(value, np.generic)
    if dtype is None and plain and data.dtype in _PLAIN_DTYPES:
        data = _as_array(value, _PLAIN_DTYPES[data.dtype])
    given = np.asarray(value)
    if data.dtype != given.dtype and ("float" in data.dtype.name or data.dtype.kind == "c"):
        check_range(value, given, data)
    if data.dtype != given.dtype and "int" in data.dtype.name and not is_same(given, data):
        raise TypeError(f"`{value!r:.50}` cannot be a constant of dtype {data.dtype}")
    return data


def _as_array(value: Any, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what becomes another is refused
            return np.asarray(value, dtype=dtype)
    except (OverflowError, TypeError, ValueError) as error:
        wanted = "" if dtype is None else f" of dtype {dtype}"
        raise TypeError(f"`{value!r:.50}` cannot be a constant{wanted}: {error}") from None


def frozen_array(data: Any) -> np.ndarray[Any, Any]:
    """`data` as an array of numbers that nobody can write to, itself where it is one already."""
    if isinstance(data, np.ndarray) and data.base is None and not data.flags.writeable:
        array = data
    else:
        array = np.array(data)
    if array.dtype.hasobject or array.dtype.kind in "SUMm" or array.dtype.names is not None:
        raise TypeError(
            f"a constant is a tensor of numbers that a dtype can hold, but `{data!r:.50}` was given"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array.flags.writeable = False
    return array
