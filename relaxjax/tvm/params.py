"""Named arrays as bytes, in the form in which TVM writes them."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relaxjax.ir.tensor_json import can_write, decode_tensor, encode_tensor, tensor_length

from .nd import NDArray, array, unwrapped

# The mark, the count of names, each with its length, the count of arrays, and the arrays.
_MARK = struct.pack("<QQ", 0xF7E58D4F05049CB7, 0)
_COUNT = struct.Struct("<Q")


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Named arrays as bytes, which TVM reads, too.

    >>> import numpy as np
    >>> from relaxjax.tvm import runtime
    >>> data = runtime.save_param_dict({"w": np.ones(2, "float32")})
    >>> runtime.load_param_dict(data)["w"].numpy()
    array([1., 1.], dtype=float32)
    """
    names = [name.encode() for name in params]
    parts = [_MARK, _COUNT.pack(len(names))]
    for name in names:
        parts += [_COUNT.pack(len(name)), name]
    tensors = (_encoded(name, value) for name, value in params.items())
    return b"".join([*parts, _COUNT.pack(len(names)), *tensors])


def save_param_dict_to_file(params: Mapping[str, Any], path: str | Path) -> None:
    """Write named arrays into a file, which TVM reads, too."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """The named arrays in bytes that `save_param_dict` wrote, here or in TVM."""
    return {name: array(value) for name, value in _Reader(bytes(param_bytes)).params()}


def load_param_dict_from_file(path: str | Path) -> dict[str, NDArray]:
    """The named arrays in a file that `save_param_dict_to_file` wrote, here or in TVM."""
    return load_param_dict(Path(path).read_bytes())


def _encoded(name: str, value: Any) -> bytes:
    data = np.asarray(unwrapped(value))
    if not can_write(str(data.dtype.newbyteorder("="))):
        raise TypeError(f"parameters are arrays of numbers, but `{name}` is of dtype {data.dtype}")
    return encode_tensor(data)


class _Reader:
    """Reads what was written from its start; what is cut off, or of another form, is an error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def params(self) -> list[tuple[str, np.ndarray[Any, Any]]]:
        if self.take(len(_MARK)) != _MARK:
            raise ValueError("these are no parameters: they do not begin with the mark of a list")
        count = self.count()
        if count * _COUNT.size > len(self.data):
            raise ValueError(f"the parameters are cut short: {count} names need more bytes")
        names = [self.name() for _ in range(count)]
        if (arrays := self.count()) != count:
            raise ValueError(f"the parameters have {count} names, but {arrays} arrays")
        found = [(name, self.tensor(name)) for name in names]
        if self.place < len(self.data):
            raise ValueError(f"{len(self.data) - self.place} bytes follow the last parameter")
        return found

    def take(self, size: int) -> bytes:
        end = self.place + size
        if size < 0 or end > len(self.data):
            raise ValueError(
                f"the parameters are cut short: {len(self.data)} bytes, and {end} are due"
            )
        self.place, start = end, self.place
        return self.data[start:end]

    def count(self) -> int:
        return int(_COUNT.unpack(self.take(_COUNT.size))[0])

    def name(self) -> str:
        return self.take(self.count()).decode()

    def tensor(self, name: str) -> np.ndarray[Any, Any]:
        try:
            rest = memoryview(self.data)[self.place :]
            size = tensor_length(rest)
            return decode_tensor(self.take(size))
        except ValueError as error:
            error.add_note(f"in the parameter `{name}`")
            raise
