"""A trained model as a folder that runs without this package."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from relaxjax.ir.module import IRModule
from relaxjax.ir.whole_file import obstacle, write_whole
from relaxjax.lowering import exported_function
from relaxjax.lowering.traits import needs_x64
from relaxjax.trainable.facts import Facts
from relaxjax.trainable.names import BACKBONE, TRAIN_STEP
from relaxjax.trainable.records import written
from relaxjax.training.layout import Layout
from relaxjax.training.random_state import implementation, is_key

from .checkpoint import array_name

ARTIFACTS = {"predict": BACKBONE, "train_step": TRAIN_STEP}


def export(
    mod: IRModule,
    layout: Layout,
    folder: str | os.PathLike[str],
    save: Callable[[Path], None],
    platforms: Sequence[str] | None,
) -> None:
    """Write the artifacts, the state by `save`, what the arguments are, and the file that runs."""
    target = Path(folder)
    found = obstacle(target)
    if found is not None:
        raise FileExistsError(f"{found}: give a folder to export into")
    artifacts = {
        name: bytes(exported_function(mod, function, platforms).serialize())
        for name, function in ARTIFACTS.items()
        if function in mod
    }
    target.mkdir(parents=True, exist_ok=True)
    for name, content in artifacts.items():
        write_whole(target / f"{name}.jax_export", content)
    save(target / "state.safetensors")
    facts = json.dumps(_facts(mod, layout), indent=1)
    write_whole(target / "model.json", f"{facts}\n".encode())
    source = Path(__file__).with_name("standalone.py").read_bytes()
    write_whole(target / "model.py", source)


def _facts(mod: IRModule, layout: Layout) -> dict[str, object]:
    """What the arguments of the artifacts are, by their names in the file of the state."""
    keys = {
        array_name(group, var): implementation(var)
        for group in layout.groups
        for var in group.vars
        if is_key(var)
    }
    return {
        **{group.name: [array_name(group, var) for var in group.vars] for group in layout.groups},
        "places": {name: written(storage.places) for name, storage in layout.storage.items()},
        "inputs": [var.name for var in layout.inputs],
        "targets": [var.name for var in layout.targets],
        "ids": _ids(mod, layout),
        "keys": keys,
        "needs_x64": any(needs_x64(mod, name) for name in ARTIFACTS.values() if name in mod),
    }


def _ids(mod: IRModule, layout: Layout) -> dict[str, list[dict[str, object]]]:
    """How many ids there are, which is ignored, and whether one must not be, by the arguments."""
    facts, found = Facts.of(mod), dict[str, list[dict[str, object]]]()
    for classes in facts.class_ids:
        known = {"ignored": classes.ignored, "has_mean": classes.has_mean}
        found.setdefault(classes.name, []).append({"count": classes.classes, **known})
    for rows in facts.row_ids:
        found.setdefault(rows.name, []).append({"count": rows.rows})
    names = {var.name for var in (*layout.inputs, *layout.targets)}
    return {name: ids for name, ids in found.items() if name in names}
