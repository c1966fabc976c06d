"""A trainer's arrays in one safetensors file, or a folder of them, written whole or not at all."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np

from relaxjax.ir.expr import Var, np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.script.program_file import read_module, read_tensors, write_program
from relaxjax.script.tensor_file import FileKind
from relaxjax.training.devices.processes import is_first, wait_for_all, whole_on_host
from relaxjax.training.inputs import fits_shape, tensor_type, to_device
from relaxjax.training.layout import Arrays, Group
from relaxjax.training.random_state import as_key, is_key, shape_of_keys

from .shards import Snapshot, SplitArray, index_of, with_shards

FORMAT = "relaxjax trainer 1"
OPTIMIZER = "optimizer"  # the group of its states
_NOTES = "notes/"
_MARKS = "marks/"

Host: TypeAlias = np.ndarray[Any, Any]
Stored: TypeAlias = Host | SplitArray


class CheckpointError(ValueError):
    """A file is damaged, or is no checkpoint, or was written for another model."""


class UnusableCheckpointError(CheckpointError):
    """A file is not as a trainer wrote it; the checkpoint before it may well be."""


_CHECKPOINT = FileKind(FORMAT, "checkpoint of a trainer", CheckpointError, UnusableCheckpointError)


def save(
    path: str | os.PathLike[str],
    groups: Sequence[Group],
    arrays: Sequence[Arrays],
    mod: IRModule,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write the arrays of the groups, in the dtypes that the program states, the program, notes.

    Of several processes the first one writes what all have.
    """
    texts = _texts(groups, notes)
    tensors = {name: _to_host(var, array) for name, var, array in _named(groups, arrays)}
    if is_first():
        write_program(path, _CHECKPOINT, mod, {**tensors, **texts})
    wait_for_all("the end of a checkpoint")


def snapshot(
    groups: Sequence[Group],
    arrays: Sequence[Arrays],
    mod: IRModule,
    notes: Mapping[str, str] | None = None,
) -> Snapshot:
    """What `save` would write, as far as it is in this process."""
    own = {
        name: (jax.random.key_data(array), np.dtype("uint32"))
        if is_key(var)
        else (array, _dtype(var))
        for name, var, array in _named(groups, arrays)
    }
    return Snapshot.of(mod, _texts(groups, notes), own)


def write_shards(folder: str | os.PathLike[str], found: Snapshot) -> None:
    """Write a checkpoint in a folder, of which each process writes what it has."""
    found.write(Path(folder), _CHECKPOINT)


def load(
    path: str | os.PathLike[str],
    groups: Sequence[Group],
    places: Sequence[Sequence[Any]],
    left_out: Sequence[Group] = (),
) -> tuple[Arrays, ...]:
    """The arrays of the groups at their places; an error lists everything that does not fit.

    What the file has of the groups that are `left_out` may be of any kind.
    """
    file = index_of(path)
    found = with_shards(file, read_tensors(file, _CHECKPOINT), _CHECKPOINT)
    others = (_NOTES, _MARKS, *_names_of(left_out))
    tensors = {name: array for name, array in found.items() if not name.startswith(others)}
    faults = [*_faults(groups, tensors), *_foreign(groups, found)]
    if faults:
        raise CheckpointError(_refusal(path, groups, found, faults))
    return tuple(
        tuple(
            _from_host(group, var, tensors[array_name(group, var)], place)
            for var, place in zip(group.vars, of_group, strict=True)
        )
        for group, of_group in zip(groups, places, strict=True)
    )


def _refusal(
    path: str | os.PathLike[str],
    groups: Sequence[Group],
    found: Mapping[str, Stored],
    faults: Sequence[str],
) -> str:
    """Why a file is refused: all that does not fit, or that another optimizer wrote it."""
    model = [group for group in groups if group.name != OPTIMIZER]
    others = (_NOTES, _MARKS, f"{OPTIMIZER}/")
    theirs = {name: array for name, array in found.items() if not name.startswith(others)}
    if len(model) == len(groups) or [*_faults(model, theirs), *_foreign(model, found)]:
        return "\n".join([f"`{path}` was not written for this model and optimizer:", *faults])
    first, *rest = faults
    more = f"\n  and {len(rest)} more of its states" if rest else ""
    return (
        f"`{path}` holds this model, but was written with another optimizer, or with other master "
        "weights or another `loss_scale`: give those that it was written with, or load the model "
        "alone by trainer.load(path, optimizer=False)\n"
        f"{first}{more}"
    )


def _names_of(groups: Sequence[Group]) -> tuple[str, ...]:
    return tuple(f"{group.name}/" for group in groups)


def module(path: str | os.PathLike[str]) -> IRModule:
    """The module that the checkpoint was written for."""
    return read_module(index_of(path), _CHECKPOINT)


def notes(path: str | os.PathLike[str]) -> dict[str, str]:
    """The notes that were saved beside the arrays."""
    found = read_tensors(index_of(path), _CHECKPOINT, _NOTES)
    return {name.removeprefix(_NOTES): _text(array) for name, array in found.items()}


def _texts(groups: Sequence[Group], notes: Mapping[str, str] | None) -> dict[str, Host]:
    """What a checkpoint holds beside the arrays."""
    _check_notes(notes)
    texts = {f"{_NOTES}{name}": _as_bytes(text) for name, text in (notes or {}).items()}
    marks = {_marks_name(group): _as_bytes(_marks_text(group)) for group in groups if group.marks}
    return texts | marks


def _named(
    groups: Sequence[Group], arrays: Sequence[Arrays]
) -> Iterator[tuple[str, Var, jax.Array]]:
    """The arrays of the groups, with their names in the file and their variables."""
    for group, values in zip(groups, arrays, strict=True):
        for var, array in zip(group.vars, values, strict=True):
            yield array_name(group, var), var, array


def _check_notes(given: Any) -> None:
    is_one = isinstance(given, Mapping) and all(isinstance(x, str) for x in given.values())
    if given is not None and not is_one:
        raise TypeError(f"`notes` must be a mapping from names to texts, but it is {given!r}")


def _faults(groups: Sequence[Group], tensors: Mapping[str, Stored]) -> Iterator[str]:
    """What of the file does not fit the program, a line each."""
    wanted = {array_name(group, var): (group, var) for group in groups for var in group.vars}
    for key, (group, var) in wanted.items():
        found = tensors.get(key)
        needs = f"  {group.kind} `{var.name}`: the program has {_type_text(var)}"
        if found is None:
            yield f"{needs}, the file lacks it"
        elif not _fits(var, found):
            yield f"{needs}, the file {found.dtype} of shape {found.shape}"
    yield from (f"  `{key}`: the program has no such array" for key in tensors if key not in wanted)


def _foreign(groups: Sequence[Group], found: Mapping[str, Stored]) -> Iterator[str]:
    """What of the file is something else than in the program, of the same types."""
    for group in groups:
        marks = found.get(_marks_name(group))
        if marks is None or not group.marks or _text(marks) == _marks_text(group):
            continue
        ours, theirs = (text.splitlines() for text in (_marks_text(group), _text(marks)))
        first = next(
            (pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]),
            (f"{len(ours)} of them", f"{len(theirs)}"),
        )
        yield f"  {group.kind}s: the program has {first[0]}, the file {first[1]}"


def _marks_name(group: Group) -> str:
    return f"{_MARKS}{group.name}"


def _marks_text(group: Group) -> str:
    return "\n".join(group.marks)


def _fits(var: Var, found: Stored) -> bool:
    if is_key(var):
        shape = shape_of_keys(var, found)
        return shape is not None and fits_shape(var, shape)
    return bool(fits_shape(var, found.shape) and found.dtype == _dtype(var))


def _to_host(var: Var, array: Any) -> Host:
    """An array in the dtype that the program states, random keys as their numbers."""
    if is_key(var):
        return np.asarray(jax.random.key_data(array))
    return whole_on_host(array).astype(_dtype(var))


def _from_host(group: Group, var: Var, array: Stored, place: Any) -> jax.Array:
    if isinstance(array, SplitArray):
        if isinstance(place, jax.sharding.Sharding) and not is_key(var):
            return jax.make_array_from_callback(array.shape, place, array.read)
        array = array.read()
    return to_device(as_key(group.kind, var, array) if is_key(var) else array, place)


def _type_text(var: Var) -> str:
    ty = tensor_type(var)
    return f"{ty.dtype} of shape {ty.shape}"


def array_name(group: Group, var: Var) -> str:
    """The name of an array in the file."""
    return f"{group.name}/{var.name}"


def _dtype(var: Var) -> np.dtype[Any]:
    return np_dtype(tensor_type(var).dtype or "float32")


def _as_bytes(text: str) -> Host:
    return np.frombuffer(text.encode(), np.uint8)


def _text(array: Stored) -> str:
    assert isinstance(array, np.ndarray)  # only what a step changes is split
    return array.tobytes().decode(errors="replace")
