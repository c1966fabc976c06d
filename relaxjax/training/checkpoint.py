"""A trainer's arrays in one safetensors file, written whole or not at all."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
import safetensors.numpy

from relaxjax.ir.expr import Var, np_dtype

from .door import fits_shape, tensor_type, to_device
from .group import Arrays, Group

FORMAT = "relaxjax trainer 1"

Host: TypeAlias = np.ndarray[Any, Any]


class CheckpointError(ValueError):
    """A file is damaged, or is no checkpoint, or was written for another model."""


def save(
    path: str | os.PathLike[str], groups: Sequence[Group], arrays: Sequence[Arrays], script: str
) -> None:
    """Write the arrays of the groups, in the dtypes that the program states, and its script."""
    tensors = {
        _key(group, var): np.asarray(array).astype(_dtype(var))
        for group, values in zip(groups, arrays, strict=True)
        for var, array in zip(group.vars, values, strict=True)
    }
    content = safetensors.numpy.save(tensors, {"format": FORMAT, "script": script})
    _write_atomically(Path(path), content)


def load(path: str | os.PathLike[str], groups: Sequence[Group], device: Any) -> tuple[Arrays, ...]:
    """The arrays of the groups on the device; an error lists everything that does not fit."""
    tensors = _read(Path(path))
    faults = list(_faults(groups, tensors))
    if faults:
        raise CheckpointError(
            "\n".join([f"`{path}` was not written for this model and optimizer:", *faults])
        )
    return tuple(
        tuple(to_device(tensors[_key(group, var)], device) for var in group.vars)
        for group in groups
    )


def script(path: str | os.PathLike[str]) -> str:
    """The script of the module that the checkpoint was written for."""
    return _header(Path(path))["script"]


def _faults(groups: Sequence[Group], tensors: Mapping[str, Host]) -> Iterator[str]:
    """What of the file does not fit the program, a line each."""
    wanted = {_key(group, var): (group, var) for group in groups for var in group.vars}
    for key, (group, var) in wanted.items():
        found = tensors.get(key)
        needs = f"  {group.kind} `{var.name}`: the program has {_type_text(var)}"
        if found is None:
            yield f"{needs}, the file lacks it"
        elif not fits_shape(var, found.shape) or found.dtype != _dtype(var):
            yield f"{needs}, the file {found.dtype} of shape {found.shape}"
    yield from (f"  `{key}`: the program has no such array" for key in tensors if key not in wanted)


def _type_text(var: Var) -> str:
    ty = tensor_type(var)
    return f"{ty.dtype} of shape {ty.shape}"


def _read(path: Path) -> dict[str, Host]:
    _header(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _header(path: Path) -> dict[str, str]:
    """The metadata of a checkpoint; a damaged or foreign file is an error."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"`{path}` is damaged or no safetensors file: {error}") from None
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"`{path}` is no checkpoint of a trainer: its format is "
            f"{metadata.get('format')!r}, expected {FORMAT!r}"
        )
    return metadata


def _write_atomically(path: Path, content: bytes) -> None:
    """Replace the file in one step, after the new content has reached the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where folders can be opened."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _key(group: Group, var: Var) -> str:
    return f"{group.name}/{var.name}"


def _dtype(var: Var) -> np.dtype[Any]:
    return np_dtype(tensor_type(var).dtype or "float32")
