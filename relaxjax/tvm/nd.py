"""Arrays as TVM hands them out: with `.numpy()`."""

from contextlib import suppress
from typing import Any

import jax
import numpy as np

from relaxjax.ir.expr import ShapeExpr, np_dtype
from relaxjax.ops.packed import is_own

_HOST = 1  # the CPU among the devices of DLPack


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

    @property
    def device(self) -> Any:
        """Where the array is; None on the host."""
        return self.data.device if isinstance(self.data, jax.Array) else None

    def copyfrom(self, source: Any) -> "NDArray":
        """Take the values of another array of this shape; a function that fills it uses this."""
        given = np.broadcast_to(np.asarray(unwrapped(source), self.dtype), self.shape)
        if isinstance(self.data, jax.Array):
            self.data = jax.device_put(given, self.data.sharding)
        else:
            self.data[...] = given
        return self

    def copyto(self, target: Any) -> Any:
        """Give another array these values, or a device a copy."""
        return target.copyfrom(self) if isinstance(target, NDArray) else array(self, target)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = np.asarray(self.data, dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        """The array for another library, without a copy: `torch.from_dlpack(array)`."""
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        kind, index = self.data.__dlpack_device__()
        return kind, int(index)

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


def empty(shape: Any, dtype: str = "float32", device: Any = None) -> NDArray:
    """An array to be filled; until then it holds zeros."""
    return array(np.zeros(tuple(shape), np_dtype(dtype)), device)


def from_dlpack(ext_tensor: Any) -> NDArray:
    """An array of another library, in its own memory: `from_dlpack(torch_tensor)`."""
    kind, _ = ext_tensor.__dlpack_device__()
    if int(kind) == _HOST:
        with suppress(BufferError, RuntimeError):  # a dtype of which numpy has none
            return NDArray(np.from_dlpack(ext_tensor))
    with jax.enable_x64(True):  # which keeps a dtype of 64 bits
        return NDArray(jax.dlpack.from_dlpack(ext_tensor))


def wrapped(value: Any) -> Any:
    """A result with its arrays as `NDArray`, in tuples too."""
    if isinstance(value, tuple | list):
        return tuple(map(wrapped, value))
    return NDArray(value) if isinstance(value, jax.Array | np.ndarray) else value


def unwrapped(value: Any) -> Any:
    """An argument with its arrays as JAX and numpy have them, in tuples and lists too.

    A Python function among them gets and gives arrays as TVM has them; a shape is its sizes.
    """
    if isinstance(value, ShapeExpr):
        return value.values
    if isinstance(value, tuple | list):
        return type(value)(map(unwrapped, value))
    if callable(value) and not is_own(value):
        return lambda *args: unwrapped(value(*map(wrapped, args)))
    return value.data if isinstance(value, NDArray) else value
