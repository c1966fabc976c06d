"""Reading `.pt2` files: a zip of JSON and raw numbers, read without PyTorch and without pickle."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from relaxjax.ir.expr import np_dtype

from .errors import TorchArchiveError, TorchImportError
from .graph_json import DTYPES, read_program
from .program import Array, TorchProgram
from .sealed_zip import SealedZip

# The releases of PyTorch whose files are read, by the major and the least minor number of the
# schema that these write. A new minor number adds what may be left out.
SCHEMAS: Mapping[int, tuple[int, str]] = {8: (13, "2.9")}
_FORMATS = {b"0"}


def read_archive(source: str | PathLike[str] | IO[bytes], name: str = "") -> TorchProgram:
    """The program and the weights of a file that `torch.export.save` wrote."""
    name = name or str(source)
    files = SealedZip(source, name)
    if "archive_format" not in files or files.read("archive_format") != b"pt2":
        raise files.damaged("it does not say that its format is pt2")
    if files.read("archive_version") not in _FORMATS:
        raise _other_release(name, f"its archive has version {files.read('archive_version')!r}")
    if "byteorder" in files and files.read("byteorder") != b"little":
        raise files.damaged("its numbers are big-endian: export it again on another machine")
    model = _only_model(files)
    program = files.read_json(model)
    _check_schema(name, program)
    stem = Path(model).stem
    weights = _tensors(files, "data/weights", stem)
    constants = _tensors(files, "data/constants", stem)
    with _as_torch_writes(files, model):
        return read_program(name, program, weights, constants)


@contextmanager
def _as_torch_writes(files: SealedZip, path: str) -> Iterator[None]:
    """Whatever goes wrong inside is said of the file in `path`, unless it is said already."""
    try:
        yield
    except (TorchArchiveError, TorchImportError):
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise files.damaged(
            f"`{path}` is not what torch writes ({type(error).__name__}: {error})"
        ) from error


def _only_model(files: SealedZip) -> str:
    found = [path for path in files.paths() if path.startswith("models/")]
    if len(found) != 1 or not found[0].endswith(".json"):
        raise files.damaged(f"it must hold one model, `models/….json`, but it holds {found}")
    return found[0]


def _check_schema(name: str, program: Any) -> None:
    version = program.get("schema_version") if isinstance(program, dict) else None
    if not isinstance(version, dict):
        raise TorchArchiveError(f"`{name}` is damaged: it names no version of its schema")
    major, minor = version.get("major"), version.get("minor")
    least = SCHEMAS[major][0] if isinstance(major, int) and major in SCHEMAS else None
    if least is None or not isinstance(minor, int) or minor < least:
        raise _other_release(name, f"its schema has version {major}.{minor}")


def _other_release(name: str, what: str) -> TorchArchiveError:
    majors = ", ".join(
        f"{major}.{least} and later ones of {major} (torch {release} and later)"
        for major, (least, release) in SCHEMAS.items()
    )
    return TorchArchiveError(
        f"`{name}`: {what}, and read are {majors}: write it again, by `torch.export.save` of such "
        "a release"
    )


def _tensors(files: SealedZip, folder: str, stem: str) -> dict[str, Array]:
    """The arrays of a folder by torch's names; tied ones are one and the same array."""
    path = f"{folder}/{stem}_{folder.rpartition('/')[2]}_config.json"
    if path not in files:
        return {}
    with _as_torch_writes(files, path):
        return _listed_tensors(files, folder, files.read_json(path)["config"])


def _listed_tensors(
    files: SealedZip, folder: str, config: Mapping[str, Mapping[str, Any]]
) -> dict[str, Array]:
    stored: dict[str, bytes] = {}
    arrays: dict[Any, Array] = {}
    found = {}
    for name, entry in config.items():
        if entry.get("use_pickle"):
            raise files.damaged(
                f"`{name}` is stored by pickle, which can run anything: torch stores so what is no "
                "plain tensor, such as a subclass of one or an object"
            )
        file, meta = f"{folder}/{entry['path_name']}", entry["tensor_meta"]
        if file not in stored:
            stored[file] = files.read(file)
        key = (file, str(meta))
        if key not in arrays:
            arrays[key] = _array(files, name, stored[file], meta)
        found[name] = arrays[key]
    return found


def _array(files: SealedZip, name: str, data: bytes, meta: Mapping[str, Any]) -> Array:
    dtype = np_dtype(DTYPES[meta["dtype"]])
    shape, strides = ([_whole(files, name, n) for n in meta[key]] for key in ("sizes", "strides"))
    offset = _whole(files, name, meta["storage_offset"])
    if len(shape) != len(strides):
        raise files.damaged(f"`{name}` has {len(shape)} sizes and {len(strides)} strides")
    size = math.prod(shape)
    reach = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
    if size and reach * dtype.itemsize > len(data):
        raise files.damaged(
            f"`{name}` of shape {tuple(shape)} and dtype {dtype.name} reaches over "
            f"{reach * dtype.itemsize} bytes, and {len(data)} are stored"
        )
    if not size:
        return np.zeros(shape, dtype)
    numbers = np.frombuffer(data, np.uint8)[offset * dtype.itemsize :]
    whole = numbers[: len(numbers) // dtype.itemsize * dtype.itemsize].view(dtype)
    steps = [step * dtype.itemsize for step in strides]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(whole, shape, steps)).reshape(shape)


def _whole(files: SealedZip, name: str, size: Mapping[str, Any]) -> int:
    number = size.get("as_int")
    if not isinstance(number, int) or number < 0:
        raise files.damaged(f"`{name}` has the size {size}")
    return number
