"""Whether a training goes on as it was begun, with the model, loss and optimizer of its file."""

import os
from collections.abc import Mapping
from typing import Any

from relaxjax.ir.expr import Constant
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.structural import structural_equal
from relaxjax.ir.walk import post_order
from relaxjax.lowering.traits import reachable
from relaxjax.ops.packed import with_told_names
from relaxjax.trainable.names import BACKBONE, BACKBONE_LOSS, EVALUATE, MADE_OF, OPTIMIZER
from relaxjax.trainable.storage import Storage
from relaxjax.training.inputs import tensor_type
from relaxjax.training.layout import Group, Layout

from .checkpoint import CheckpointError, module

_OTHERS = {
    BACKBONE: "model",
    OPTIMIZER: "optimizer, such as one of another learning rate",
    EVALUATE: "loss, or with other options of it",
    BACKBONE_LOSS: "loss, or with other options of it",
}
_IN_TRAINING = "model in training, such as one with another rate of dropout"

_COMPUTING = ("elementwise", "broadcast", "reduction", "out_fusable")


def check_begun(path: str | os.PathLike[str], mod: IRModule) -> None:
    """Raise where a checkpoint was written by a training with another model, optimizer or loss.

    Their parameters and states may well be of the same names and types; where they are not,
    `Trainer.load` says which. Functions that have their arrays in other places, such as those of
    equal layers in stacks, are compared by their digests of before that.
    """
    begun, mod = module(path), with_told_names(mod)
    theirs, ours = Layout.of(begun), Layout.of(mod)
    if list(map(_told, theirs.groups[:2])) != list(map(_told, ours.groups[:2])):
        return
    before, now = (one.attrs.get(MADE_OF, {}) for one in (begun, mod))
    if _places(theirs) == _places(ours):
        found = ((name, _changed(name, begun, mod)) for name in (BACKBONE, OPTIMIZER, EVALUATE))
        other = next(((name, pair) for name, pair in found if pair is not None), None)
        if other is not None:
            raise _refusal(path, _OTHERS[other[0]], _first_change(*other[1]))
        # These predict and evaluate; what trains may differ all the same, as where it draws.
        if _differ(BACKBONE_LOSS, before, now):
            raise _refusal(path, _IN_TRAINING, _only_in_one(BACKBONE_LOSS, begun, mod))
        return
    for name in (BACKBONE, OPTIMIZER, BACKBONE_LOSS):
        is_of_load = name == OPTIMIZER and _told(theirs.optimizer) != _told(ours.optimizer)
        if not is_of_load and _differ(name, before, now):
            raise _refusal(path, _OTHERS[name], _only_in_one(name, begun, mod))


def _differ(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether two digests of a function are known, and are not the same."""
    return name in before and name in now and before[name] != now[name]


def _refusal(path: str | os.PathLike[str], other: str, change: str) -> CheckpointError:
    return CheckpointError(
        f"`{path}` was written by a training with another {other}: resume=True goes on as "
        "it was begun; to train on with this one, trainer.load the checkpoint and fit without "
        f"`resume`{change}"
    )


def _told(group: Group) -> list[tuple[str, str]]:
    """The names and types of the user's arrays, wherever they lie."""
    types = map(tensor_type, group.vars)
    return [(v.name, f"{ty.dtype} {ty.shape}") for v, ty in zip(group.vars, types, strict=True)]


def _places(layout: Layout) -> tuple[list[str], Mapping[str, Storage]]:
    """On which devices the arrays are, and where the functions have them."""
    return [str(var.ty) for group in layout.groups[:2] for var in group.vars], layout.storage


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


def _only_in_one(name: str, begun: IRModule, mod: IRModule) -> str:
    """What is computed in one of two functions alone, whose lines cannot be compared."""
    before, now = _parts(name, begun), _parts(name, mod)
    told = ("only there", before - now), ("only here", now - before)
    return "".join(f"\n  {where}: {', '.join(sorted(parts))}" for where, parts in told if parts)


def _parts(name: str, mod: IRModule) -> set[str]:
    """The operators and numbers of a function, without those that only move arrays, and loops."""
    found = set[str]()
    for _, function in reachable(mod, name) if name in mod else ():
        for expr in post_order(function):
            if isinstance(expr, Op) and expr.fusion in _COMPUTING:
                found.add(f"`{expr.name}`")
            elif isinstance(expr, Constant) and expr.data.ndim == 0 and expr.data.dtype.kind == "f":
                found.add(f"{expr.data:.6g}")
    return found


def _lines(function: Function) -> list[str]:
    """What a function says, without the imports that it needs."""
    lines = function.script(show_all_types=False).splitlines()
    return [line for line in lines if not line.startswith("#")]
