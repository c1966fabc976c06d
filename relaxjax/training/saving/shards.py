"""Checkpoints of which each process writes the part that it has, and nobody has to have all.

Such a checkpoint is a folder. Each process writes one file of shards into it, and then the first
one writes the index, in one step: with the index the checkpoint is there, and without it it is not.
The index holds the program, and names the parts, so parts that were left behind count for nothing.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np

from relaxjax.ir.expr import np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.script.program_file import write_program
from relaxjax.script.tensor_file import FileKind, TensorFile, write_tensors
from relaxjax.training.devices.processes import Conversation, all_did, is_first

Host: TypeAlias = np.ndarray[Any, Any]
Region: TypeAlias = tuple[slice, ...]

INDEX = "index.safetensors"
_TABLE = "shards"  # the array of the index that says which arrays and parts there are
_PART = re.compile(r"part-\d+-[0-9a-f]+\.safetensors")
_MARK = "relaxjax shards 1"

_saving = Conversation("relaxjax/shards")


@dataclass(frozen=True)
class Snapshot:
    """What this process has of some arrays at a moment, in the host's memory.

    `whole` are the dtypes and shapes of all arrays by their names, `shards` the arrays in pieces,
    whose names say where they belong.
    """

    mod: IRModule
    texts: Mapping[str, Host]
    whole: Mapping[str, tuple[str, tuple[int, ...]]]
    shards: Mapping[str, Host]

    @staticmethod
    def of(
        mod: IRModule, texts: Mapping[str, Host], arrays: Mapping[str, tuple[jax.Array, Any]]
    ) -> "Snapshot":
        """That of arrays, each with its dtype in the file. The next step may take their memory."""
        own = {
            f"{name}@{','.join(map(str, _offsets(shard.index, array.shape)))}": (shard.data, dtype)
            for name, (array, dtype) in arrays.items()
            for shard in array.addressable_shards
            if shard.replica_id == 0  # of those who have the same, one writes it
        }
        for data, _ in own.values():
            data.copy_to_host_async()
        return Snapshot(
            mod,
            texts,
            {name: (str(dtype), array.shape) for name, (array, dtype) in arrays.items()},
            {key: np.array(data, dtype) for key, (data, dtype) in own.items()},
        )

    def write(self, folder: Path, kind: FileKind) -> None:
        """Write it as a checkpoint, together with those of the other processes."""
        part = f"part-{jax.process_index()}-{secrets.token_hex(4)}.safetensors"

        def write_part() -> None:
            folder.mkdir(parents=True, exist_ok=True)
            write_tensors(folder / part, _kind_of_part(kind), self.shards, {})

        parts = all_did(f"the parts of `{folder.name}`", "write", write_part, part, _saving)

        def write_index() -> None:
            missing = [at for at, name in enumerate(parts) if not (folder / name).exists()]
            if missing:
                raise FileNotFoundError(
                    f"what process {missing[0]} wrote into `{folder}` is not there: all processes "
                    "write into one folder, which all machines must share"
                )
            table = json.dumps({"parts": parts, "arrays": self.whole}).encode()
            tensors = {_TABLE: np.frombuffer(table, np.uint8), **self.texts}
            write_program(folder / INDEX, kind, self.mod, tensors)
            for name in os.listdir(folder):
                if name not in (INDEX, *parts):
                    (folder / name).unlink(missing_ok=True)

        write = write_index if is_first() else lambda: None
        all_did(f"the index of `{folder.name}`", "write", write, "", _saving)


@dataclass(frozen=True)
class SplitArray:
    """An array of a checkpoint whose shards lie in several files."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    shards: tuple[tuple[Region, TensorFile, str], ...]

    def read(self, wanted: Region | None = None) -> Host:
        """A part of the array, or all of it, of the shards that have some of that."""
        wanted = (slice(None),) * len(self.shape) if wanted is None else wanted
        bounds = [one.indices(size)[:2] for one, size in zip(wanted, self.shape, strict=True)]
        found = np.empty([last - first for first, last in bounds], self.dtype)
        for region, file, name in self.shards:
            common = [
                (max(first, has.start), min(last, has.stop))
                for (first, last), has in zip(bounds, region, strict=True)
            ]
            if all(first < last for first, last in common):
                there = _moved(common, [first for first, _ in bounds])
                here = _moved(common, [has.start for has in region])
                found[there] = file.read(name)[here]
        return found


def index_of(path: str | os.PathLike[str]) -> Path:
    """The file to begin with, of a checkpoint in one file or in a folder."""
    index = Path(path) / INDEX
    return index if index.exists() else Path(path)


def with_shards(
    path: Path, found: Mapping[str, Host], kind: FileKind
) -> dict[str, Host | SplitArray]:
    """What a checkpoint has, where some of it may lie in parts beside the file."""
    arrays: dict[str, Host | SplitArray] = dict(found)
    table = arrays.pop(_TABLE, None)
    if not isinstance(table, np.ndarray):
        return arrays
    try:
        said = json.loads(table.tobytes())
        names = [str(name) for name in said["parts"]]
        whole = {
            str(name): (np_dtype(dtype), tuple(map(int, shape)))
            for name, (dtype, shape) in said["arrays"].items()
        }
        if not all(map(_PART.fullmatch, names)):
            raise ValueError(names)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        fault = f"is damaged: its table of shards is wrong: {error!r}"
        raise kind.refused(path, fault) from None
    return arrays | _joined(path, names, whole, kind)


def remove(path: Path) -> None:
    """Remove a checkpoint of one file or of a folder; killed in between, it is none any more."""
    if path.is_dir():
        (path / INDEX).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _joined(
    path: Path,
    names: list[str],
    whole: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
    kind: FileKind,
) -> dict[str, SplitArray]:
    found: dict[str, list[tuple[Region, TensorFile, str]]] = {name: [] for name in whole}
    for part in names:
        try:
            file = TensorFile(path.parent / part, _kind_of_part(kind))
        except FileNotFoundError:
            raise kind.refused(
                path,
                f"lacks the file `{part}`, which a process wrote beside it: move the "
                "whole folder of a checkpoint",
            ) from None
        try:
            for key in file.names:
                name, _, offsets = key.rpartition("@")
                found[name].append((_region(offsets, file.shape(key)), file, key))
        except (LookupError, ValueError) as error:
            raise kind.refused(file.path, f"is damaged: {error!r} of its shards") from None
    for name, (_, shape) in whole.items():
        count = sum(prod(s.stop - s.start for s in region) for region, _, _ in found[name])
        if count != prod(shape):
            raise kind.refused(
                path, f"is damaged: its parts have {count} of the {prod(shape)} numbers of `{name}`"
            )
    return {name: SplitArray(*whole[name], tuple(found[name])) for name in whole}


def _kind_of_part(kind: FileKind) -> FileKind:
    return FileKind(_MARK, "part of a checkpoint", kind.error, kind.unusable)


def _offsets(index: Region, shape: tuple[int, ...]) -> list[int]:
    return [one.indices(size)[0] for one, size in zip(index, shape, strict=True)]


def _region(offsets: str, shape: tuple[int, ...]) -> Region:
    firsts = [int(offset) for offset in offsets.split(",") if offset]
    return tuple(slice(at, at + size) for at, size in zip(firsts, shape, strict=True))


def _moved(bounds: list[tuple[int, int]], by: list[int]) -> Region:
    return tuple(slice(first - at, last - at) for (first, last), at in zip(bounds, by, strict=True))
