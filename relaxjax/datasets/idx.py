"""IDX, the file format of MNIST and Fashion-MNIST: a header, then an array, plain or gzipped.

The header is two zero bytes, the element type, the number of dimensions, and each dimension as a
big-endian 32-bit integer; the elements follow, big-endian, in C order.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

ELEMENT_TYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
_GZIP_MAGIC = b"\x1f\x8b"


class IdxError(ValueError):
    """A file is not the IDX file it should be, or an array does not fit into one."""


def read(path: str | Path) -> Array:
    """The array in an IDX file. Whether it is gzipped is told by its content, not by its name."""
    path = Path(path)
    content = path.read_bytes()
    return decode(_unzip(content, path) if content.startswith(_GZIP_MAGIC) else content, str(path))


def write(path: str | Path, array: Array) -> None:
    """Write an array as an IDX file, gzipped where the name ends in `.gz`."""
    path = Path(path)
    content = encode(array)
    # With a fixed time, equal arrays give equal bytes.
    path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)


def decode(content: bytes, name: str) -> Array:
    """The array that IDX bytes describe, in the machine's own byte order; `name` is for errors."""
    if len(content) < 4 or content[:2] != b"\0\0":
        raise IdxError(
            f"{name} is not an IDX file: it must begin with two zero bytes, a type and a number of "
            f"dimensions, but it begins with `{content[:4].hex(' ')}`"
        )
    dtype = ELEMENT_TYPES.get(content[2])
    if dtype is None:
        known = ", ".join(f"0x{code:02x} ({kind.name})" for code, kind in ELEMENT_TYPES.items())
        raise IdxError(f"{name} has element type 0x{content[2]:02x}, but IDX knows only {known}")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise IdxError(
            f"{name} is cut off: a header of {content[3]} dimensions takes {start} bytes, but the "
            f"file has {len(content)}"
        )
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    expected, found = dtype.itemsize * math.prod(shape), len(content) - start
    if found != expected:
        raise IdxError(
            f"{name} is {'cut off' if found < expected else 'too long'}: its header promises shape "
            f"{shape} of {dtype.name}, {expected} bytes, but {found} bytes follow"
        )
    array = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def encode(array: Array) -> bytes:
    """The bytes of an IDX file with this array."""
    for code, dtype in ELEMENT_TYPES.items():
        if dtype == array.dtype.newbyteorder(">"):
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
            return header + array.astype(dtype).tobytes()
    known = ", ".join(kind.name for kind in ELEMENT_TYPES.values())
    raise IdxError(f"IDX files hold {known}, but the array is of {array.dtype}: convert it first")


def _unzip(content: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise IdxError(f"{path} is a damaged gzip file: {error}") from error
