"""Arrays by name in a safetensors file, those of dtypes that the library does not know as well.

The header holds checksums of itself and of each array, which are compared as these are read. A file
without any is from before there were some, or of another program, and is taken as it is.
"""

import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
import safetensors.numpy

from relaxjax.ir.expr import np_dtype
from relaxjax.ir.whole_file import write_whole

Array: TypeAlias = np.ndarray[Any, Any]

# What the library reads back itself; everything else is kept as bytes.
_NATIVE = frozenset(
    {
        *("bool", "float16", "float32", "float64", "bfloat16", "complex64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    }
)


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is for: the mark in its header, what it is called, and the errors it raises.

    A file that is of no use to anybody, because it is damaged, may have an error of its own.
    """

    mark: str
    title: str
    error: Callable[[str], Exception]
    unusable: Callable[[str], Exception] | None = None

    def refused(self, path: str | os.PathLike[str], fault: str) -> Exception:
        """What to raise where a file is not as it was written, or was written as another kind."""
        return (self.unusable or self.error)(f"`{path}` {fault}")


def write_tensors(
    path: str | os.PathLike[str],
    kind: FileKind,
    tensors: Mapping[str, Any],
    header: Mapping[str, str],
) -> None:
    """Write arrays by name, and texts in the header."""
    arrays = {name: _in_order(array) for name, array in tensors.items()}
    types = {n: [str(a.dtype), a.shape] for n, a in arrays.items() if not _is_native(a)}
    plain = {n: _bytes_of(a) if n in types else a for n, a in arrays.items()}
    checks = {name: _checksum(array) for name, array in plain.items()}
    texts = {"format": kind.mark, **header, "types": json.dumps(types)}
    texts["checksums"] = json.dumps(checks)
    texts["checksum"] = _checksum_of_texts(texts)
    write_whole(path, safetensors.numpy.save(plain, texts))


class TensorFile:
    """The arrays of a file, each of which is read when it is asked for.

    A damaged or foreign file is an error.
    """

    def __init__(self, path: Path, kind: FileKind) -> None:
        self.path, self._kind = path, kind
        if path.is_dir():
            raise kind.error(f"`{path}` is a folder: give a {kind.title} that lies in it")
        try:
            file: Any = safetensors.safe_open(path, framework="numpy")
            self.header: dict[str, str] = file.metadata() or {}
            self.names: list[str] = list(file.keys())
        except safetensors.SafetensorError as error:
            raise self._unreadable(error) from None
        self._file = file
        if self.header.get("checksum") not in (None, _checksum_of_texts(self.header)):
            raise self._changed("the text in its header")
        if self.header.get("format") != kind.mark:
            raise kind.refused(
                path,
                f"is no {kind.title}: its format is "
                f"{self.header.get('format')!r}, expected {kind.mark!r}",
            )
        try:
            types = json.loads(self.header.get("types", "{}"))
            self._types = {name: (dtype, tuple(shape)) for name, (dtype, shape) in types.items()}
            if not self._types.keys() <= set(self.names):
                raise LookupError(min(self._types.keys() - set(self.names)))
            self._checks: dict[str, str] = json.loads(self.header.get("checksums", "{}"))
            if self._checks and self._checks.keys() != set(self.names):
                raise LookupError(min(self._checks.keys() ^ set(self.names)))
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self.wrong_header(error) from None

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array, which is not read for that."""
        if name in self._types:
            return self._types[name][1]
        return tuple(self._file.get_slice(name).get_shape())

    def read(self, name: str) -> Array:
        """One of the arrays."""
        try:
            array: Array = self._file.get_tensor(name)
        except safetensors.SafetensorError as error:
            raise self._unreadable(error) from None
        if self._checks.get(name) is not None:
            if self._checks[name] != _checksum(array):
                raise self._changed(f"what it holds of `{name}`")
            del self._checks[name]  # shards are read again and again
        if name not in self._types:
            return array
        try:
            dtype, shape = self._types[name]
            return np.frombuffer(array.tobytes(), np_dtype(dtype)).reshape(shape)
        except (ValueError, TypeError, AttributeError) as error:
            raise self.wrong_header(error) from None

    def wrong_header(self, error: Exception) -> Exception:
        """What to raise where the header says what cannot be."""
        return self._kind.refused(self.path, f"is damaged: its header is wrong: {error!r}")

    def _changed(self, what: str) -> Exception:
        return self._kind.refused(
            self.path,
            f"is damaged: {what} is not what was written, by its checksum: take another one, or a "
            "copy of this one from elsewhere",
        )

    def _unreadable(self, error: Exception) -> Exception:
        return self._kind.refused(self.path, f"is damaged or no safetensors file: {error}")


def _in_order(array: Any) -> Array:
    """The array with its elements in the order in which safetensors takes their bytes to be."""
    return np.asarray(array, order="C")


def _is_native(array: Array) -> bool:
    return str(array.dtype) in _NATIVE


def _bytes_of(array: Array) -> Array:
    return np.frombuffer(array.tobytes(), np.uint8)


def _checksum(array: Array) -> str:
    """The CRC-32 of an array's type and bytes: the fastest that the standard library has.

    It finds every fault of up to 32 bits in a row, and of others all but one of 4 billion.
    """
    kind = zlib.crc32(f"{array.dtype}{array.shape}".encode())
    return f"{zlib.crc32(array.reshape(-1).view(np.uint8).data, kind):08x}"


def _checksum_of_texts(header: Mapping[str, str]) -> str:
    """That of all texts of a header but its own."""
    texts = sorted((name, text) for name, text in header.items() if name != "checksum")
    return f"{zlib.crc32(json.dumps(texts).encode()):08x}"
