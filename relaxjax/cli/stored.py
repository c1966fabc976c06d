"""Arrays that stay in their files: of these a process reads the rows that it asks for."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
from safetensors import safe_open

from relaxjax.training.devices.processes import Conversation, agree

from .failure import InputError

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK = 2**24  # bytes that are looked at in one piece
_LENGTH = 8  # bytes in front of a safetensors file, which say how long its header is
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
    "BF16": ml_dtypes.bfloat16,
}  # fmt: skip

_data = Conversation("relaxjax/data")


class Stored:
    """An array in a file, or some of its rows; what is read is made by `made`, of fixed dtype."""

    def __init__(
        self, source: Array, made: Callable[[Array], Array], order: Array | None = None
    ) -> None:
        self._source, self._made, self._order = source, made, order
        like = made(np.empty((1, *source.shape[1:]), source.dtype))
        self.shape: tuple[int, ...] = (
            len(source) if order is None else len(order),
            *like.shape[1:],
        )
        self.dtype = like.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        chosen = rows if self._order is None else self._order[rows]
        return self._made(np.asarray(self._source[chosen]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def chosen(self, order: Array) -> "Stored":
        """Some of the rows, in an order of their own; none of them is read."""
        return Stored(self._source, self._made, order)

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """The blocks that are for this process to look at, each with the place of its first row."""
        of_row = max(1, self._source[:1].nbytes)
        size = max(1, _BLOCK // of_row)
        starts = range(0, len(self), size)
        for place in range(jax.process_index(), len(starts), jax.process_count()):
            yield starts[place], self[starts[place] : starts[place] + size]


def blocks_of(array: Array | Stored) -> Iterator[Array]:
    """An array that is here, or the blocks of one in a file that are for this process."""
    if isinstance(array, Stored):
        yield from (block for _, block in array.blocks())
    else:
        yield array


def some_of(array: Any, order: Array) -> Any:
    """Some rows of an array, which are not read yet where it is in a file."""
    return array.chosen(order) if isinstance(array, Stored) else array[order]


def content(array: Array | Stored) -> bytes:
    """What an array is told by: its numbers, or of one in a file the digests of its blocks.

    Of several processes each reads its own blocks.
    """
    head = f"{array.dtype} {array.shape} ".encode()
    if not isinstance(array, Stored):
        return head + array.tobytes()
    own = {place: hashlib.sha256(block.tobytes()).hexdigest() for place, block in array.blocks()}
    told: dict[str, str] = {}
    for said in _data.told("what the data is", json.dumps(own)):
        told |= json.loads(said)
    return head + "".join(told[place] for place in sorted(told, key=int)).encode()


@contextmanager
def told_to_all(subject: str) -> Iterator[None]:
    """Inside, what one process finds wrong is an error of all of them: none waits for another."""
    fault = ""
    try:
        yield
    except InputError as error:
        fault = str(error)
    found = next(filter(None, _data.told(subject, fault)), None)
    if found is not None:
        raise InputError(found)


def agree_on(name: str, arrays: Mapping[str, Array | Stored | None]) -> None:
    """Raise on every process where they do not find the same arrays."""
    held = {key: array for key, array in arrays.items() if array is not None}
    said = ", ".join(f"`{key}` {array.dtype}{list(array.shape)}" for key, array in held.items())
    agree(f"the data `{name}`", said, "give each of them the same files")


def npy_folder(folder: Path) -> dict[str, Array]:
    """The arrays of the files .npy in a folder, none of which is read."""
    found = {}
    for path in sorted(folder.glob("*.npy")):
        try:
            found[path.stem] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            why = why_not_read(error)
            raise InputError(f"`{path}` cannot be read as an .npy file: {why}") from error
    return found


def why_not_read(error: Exception) -> str:
    """What numpy says of a file; but not that it be read as pickled objects, as it says of all."""
    if "contains pickled" in str(error):  # whatever begins as no file of numpy
        return "it is none, by its first bytes"
    has_objects = any(word in str(error) for word in ("pickle", "Python objects"))
    return "it holds no arrays of numbers" if has_objects else str(error)


def safetensors(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file, none of which is read."""
    with safe_open(path, "numpy"):
        pass  # which finds what is damaged
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        header = json.loads(file.read(length))
    found: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise InputError(f"`{path}`: `{name}` is of {entry['dtype']}, which no model takes")
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        start = _LENGTH + length + entry["data_offsets"][0]
        is_there = 0 not in shape  # nothing can be mapped of an empty array
        found[name] = (
            np.memmap(path, dtype, "r", start, shape) if is_there else np.empty(shape, dtype)
        )
    return found
