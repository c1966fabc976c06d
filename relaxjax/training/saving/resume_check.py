"""Whether a training goes on as it was begun, with the model, loss and optimizer of its file."""

import os
from collections.abc import Mapping
from typing import Any

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import structural_equal
from relaxjax.lowering.traits import reachable
from relaxjax.trainable.names import BACKBONE, EVALUATE, OPTIMIZER
from relaxjax.trainable.storage import Storage
from relaxjax.training.layout import Layout

from .checkpoint import CheckpointError, module

_OTHERS = {
    BACKBONE: "model",
    OPTIMIZER: "optimizer, such as one of another learning rate",
    EVALUATE: "loss, or with other options of it",
}


def check_begun(path: str | os.PathLike[str], mod: IRModule) -> None:
    """Raise where a checkpoint was written by a training with another model, optimizer or loss.

    Their parameters and states may well be of the same names and types; where they are not,
    `Trainer.load` says which. Functions that have their arrays in other places, such as those of
    equal layers in stacks, are not compared.
    """
    begun = module(path)
    if _kept(begun) != _kept(mod):
        return
    for name, other in _OTHERS.items():
        changed = _changed(name, begun, mod)
        if changed is not None:
            raise CheckpointError(
                f"`{path}` was written by a training with another {other}: resume=True goes on as "
                "it was begun; to train on with this one, trainer.load the checkpoint and fit "
                f"without `resume`{_first_change(*changed)}"
            )


def _kept(mod: IRModule) -> tuple[list[tuple[str, str]], Mapping[str, Storage]]:
    """The parameters and states of the model, and where the functions have what."""
    layout = Layout.of(mod)
    kept = (*layout.params.vars, *layout.states.vars)
    return [(var.name, str(var.ty)) for var in kept], layout.storage


def _changed(name: str, begun: IRModule, mod: IRModule) -> tuple[Function | None, Function] | None:
    """What became of the function `name`, or of one that it calls; None where all is as it was."""
    if name not in begun or name not in mod:
        return None
    if name == OPTIMIZER and _types(begun[name]) != _types(mod[name]):
        return None
    theirs = dict(reachable(begun, name))
    functions = ((theirs.get(called), own) for called, own in reachable(mod, name))
    return next((pair for pair in functions if not structural_equal(*pair)), None)


def _types(function: Any) -> list[Any]:
    return [param.ty for param in function.params]


def _first_change(begun: Function | None, own: Function) -> str:
    if begun is None:
        return ""
    before, now = (_lines(function) for function in (begun, own))
    lines = next((pair for pair in zip(before, now, strict=False) if pair[0] != pair[1]), None)
    return "" if lines is None else "\n  was {}\n  and is {} now".format(*map(str.strip, lines))


def _lines(function: Function) -> list[str]:
    """What a function says, without the imports that it needs."""
    lines = function.script(show_all_types=False).splitlines()
    return [line for line in lines if not line.startswith("#")]
