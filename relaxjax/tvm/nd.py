"""Arrays as TVM hands them out: with `.numpy()`."""

from typing import Any

import jax
import numpy as np

from relaxjax.ops.packed import is_own


class NDArray:
    """An array on a device or on the host.

    numpy reads it as it reads any array; `.data` is the JAX or numpy array itself.
    """

    def __init__(self, data: Any) -> None:
        self.data = data

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        return np.array(self.data)

    asnumpy = numpy

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> str:
        return str(self.data.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = np.asarray(self.data, dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        return len(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def __repr__(self) -> str:
        return f"NDArray(shape={self.shape}, dtype={self.dtype})\n{self.data}"


def array(data: Any, device: Any = None) -> NDArray:
    """A copy of `data`; without a device it stays on the host, in its very dtype."""
    host = np.array(unwrapped(data))
    return NDArray(host if device is None else jax.device_put(host, device))


def wrapped(value: Any) -> Any:
    """A result with its arrays as `NDArray`, in tuples too."""
    if isinstance(value, tuple | list):
        return tuple(map(wrapped, value))
    return NDArray(value) if isinstance(value, jax.Array) else value


def unwrapped(value: Any) -> Any:
    """An argument with its arrays as JAX and numpy have them, in tuples and lists too.

    A Python function among them gets and gives arrays as TVM has them.
    """
    if isinstance(value, tuple | list):
        return type(value)(map(unwrapped, value))
    if callable(value) and not is_own(value):
        return lambda *args: unwrapped(value(*map(wrapped, args)))
    return value.data if isinstance(value, NDArray) else value
