"""What a training was begun with, kept beside its checkpoints: --resume goes on with the same."""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.ir.whole_file import write_whole

from .failure import InputError
from .stored import content
from .train_data import Examples

# What decides the numbers of a training besides its model and its data.
_OPTIONS = (
    *("loss", "optim", "lr", "weight_decay", "schedule", "warmup", "clip", "accumulate"),
    *("loss_scale", "half", "holdout", "seed", "states", "init"),
)
_MODEL, _DATA, _FILES = "the model", "the data to train on", "what the files of --load hold"


def record_of(
    args: argparse.Namespace, mod: IRModule, examples: Examples, size: int
) -> dict[str, Any]:
    """The options by their names on the command line, the model and the data by their digests."""
    record = {f"--{name.replace('_', '-')}": getattr(args, name) for name in _OPTIONS}
    record["--batch"] = size
    if args.schedule != "constant":  # which goes by the number of all steps
        record["--epochs"] = args.epochs
    record[_MODEL] = _digest(mod.script().encode())
    record[_DATA] = _digest(*map(content, (examples.x, examples.y)))
    if args.load:
        record[_FILES] = _digest(*(Path(file).read_bytes() for file in args.load))
    return record


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Keep what a training begins with."""
    write_whole(_place(folder), f"{json.dumps(record, indent=1)}\n".encode())


def check_record(folder: Path, record: dict[str, Any]) -> None:
    """Raise where the training in a folder was begun with something else."""
    if not _place(folder).exists():
        return
    try:
        begun = dict(json.loads(_place(folder).read_bytes()))
    except ValueError as error:
        raise InputError(f"`{_place(folder)}` is damaged: {error}") from None
    names = [name for name in {**begun, **record} if begun.get(name) != record.get(name)]
    if names:
        raise InputError(
            f"--resume goes on with a training as it was begun, but since that in `{folder}` was,\n"
            + "".join(f"  {_change(name, begun.get(name), record.get(name))}\n" for name in names)
            + "give what it was begun with, or train another model from its values: --init with "
            "one of its checkpoints, and another folder by --out"
        )


def _change(name: str, before: Any, now: Any) -> str:
    if name in (_MODEL, _DATA, _FILES):
        return f"{name} became another"
    return f"{name} was {_said(before)} and is {_said(now)} now"


def _said(value: Any) -> str:
    return "not given" if value is None else str(value)


def _place(folder: Path) -> Path:
    return folder / "training.json"


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()
