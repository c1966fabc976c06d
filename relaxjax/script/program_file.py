"""A module and arrays in one safetensors file: the script in its header, big constants beside it.

Nothing in such a file is executed, and what is read is bounded by the size of the file.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
import safetensors.numpy

from relaxjax.ir.expr import Constant, np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import print_apart
from relaxjax.ir.tensor_json import KIND
from relaxjax.ir.whole_file import write_whole

from .printed import PRINTED_NAMES, check_printed
from .source import text_source
from .text import from_source

Array: TypeAlias = np.ndarray[Any, Any]

MOST_SCRIPT = 32_000_000  # characters: a safetensors header may be 100 MB, parsed text much more
_CONSTANTS = "constants/"
# What the library reads back itself; everything else is kept as bytes.
_NATIVE = frozenset(
    {
        *("bool", "float16", "float32", "float64", "bfloat16", "complex64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    }
)


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is for: the mark in its header, what it is called, and the error it raises."""

    mark: str
    title: str
    error: Callable[[str], Exception]


def write_program(
    path: str | os.PathLike[str], kind: FileKind, mod: IRModule, tensors: Mapping[str, Any]
) -> None:
    """Write a module and arrays by name."""
    script, constants = print_apart(mod)
    if len(script) > MOST_SCRIPT:
        raise kind.error(
            f"the script of the module has {len(script)} characters, "
            f"but the most that a file holds is {MOST_SCRIPT}"
        )
    named = {f"{_CONSTANTS}{index}": data for index, data in enumerate(constants)}
    arrays = {name: _in_order(array) for name, array in (*named.items(), *tensors.items())}
    types = {n: [str(a.dtype), a.shape] for n, a in arrays.items() if not _is_native(a)}
    plain = {n: _bytes_of(a) if n in types else a for n, a in arrays.items()}
    header = {"format": kind.mark, "script": script, "types": json.dumps(types)}
    write_whole(path, safetensors.numpy.save(plain, header))


def read_program(path: str | os.PathLike[str], kind: FileKind) -> tuple[IRModule, dict[str, Array]]:
    """The module and the arrays that `write_program` wrote."""
    script, arrays = _read(Path(path), kind)
    constants = [arrays.pop(name) for name in _constant_names(arrays)]
    if len(script) > MOST_SCRIPT:
        raise kind.error(f"`{path}` is damaged: its script is too long")
    metadata = {KIND: [Constant(data) for data in constants]}
    try:
        source = text_source(script, f"{path}")
        check_printed(source)
        mod = from_source(script, {**PRINTED_NAMES, "metadata": metadata}, source.file)
    except Exception as error:
        raise kind.error(f"`{path}` is damaged: its script cannot be read: {error}") from error
    if not isinstance(mod, IRModule):
        raise kind.error(f"`{path}` is damaged: its script is no module")
    return mod, arrays


def read_tensors(path: str | os.PathLike[str], kind: FileKind) -> dict[str, Array]:
    """The arrays alone, without the constants of the module."""
    _, arrays = _read(Path(path), kind)
    for name in _constant_names(arrays):
        del arrays[name]
    return arrays


def _read(path: Path, kind: FileKind) -> tuple[str, dict[str, Array]]:
    """The script and all arrays; a damaged or foreign file is an error."""
    if path.is_dir():
        raise kind.error(f"`{path}` is a folder: give a {kind.title} that lies in it")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header: dict[str, str] = file.metadata() or {}
            if header.get("format") != kind.mark:
                raise kind.error(
                    f"`{path}` is no {kind.title}: its format is "
                    f"{header.get('format')!r}, expected {kind.mark!r}"
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise kind.error(f"`{path}` is damaged or no safetensors file: {error}") from None
    try:
        types = json.loads(header.get("types", "{}"))
        arrays |= {n: _typed(arrays[n], dtype, shape) for n, (dtype, shape) in types.items()}
        return header["script"], arrays
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise kind.error(f"`{path}` is damaged: its header is wrong: {error!r}") from None


def _constant_names(arrays: Mapping[str, Array]) -> list[str]:
    """The constants of a module, in the order in which its script counts them."""
    count = sum(name.startswith(_CONSTANTS) for name in arrays)
    return [name for index in range(count) if (name := f"{_CONSTANTS}{index}") in arrays]


def _in_order(array: Any) -> Array:
    """The array with its elements in the order in which safetensors takes their bytes to be."""
    return np.asarray(array, order="C")


def _is_native(array: Array) -> bool:
    return str(array.dtype) in _NATIVE


def _bytes_of(array: Array) -> Array:
    return np.frombuffer(array.tobytes(), np.uint8)


def _typed(array: Array, dtype: str, shape: list[int]) -> Array:
    """An array that was kept as bytes; what does not fit them is an error."""
    return np.frombuffer(array.tobytes(), np_dtype(dtype)).reshape(shape)
