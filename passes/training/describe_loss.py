"""What a trainer is to know of the arguments of a model and its loss."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.kinds import Pass
from relaxjax.passes.infrastructure.named_params import check_params
from relaxjax.trainable.arguments import required_function
from relaxjax.trainable.facts import TAKEN, Facts
from relaxjax.trainable.names import BACKBONE_LOSS

from .find_ids import class_ids, row_ids

_TARGET = f"parameter of `{BACKBONE_LOSS}`"
_WEIGHTS = "weights"  # what the argument of a loss is called that weighs its mean


@pass_factory(opt_level=0)
def DescribeLoss(
    mod: IRModule,
    compares_classes: bool = False,
    is_mean: bool = False,
    weights: str | None = None,
    takes: str | None = None,
) -> IRModule:
    """State which arguments of `backbone_loss` are ids, and what its loss says of itself.

    They become attributes of the module, which a Trainer reads to refuse wrong data:

    * `class_ids` is for targets that are class ids. It lists the name of each, its number of
      classes, its id to ignore, and whether the loss is a mean over the others. Such a mean needs
      at least one.
    * `row_ids` is for inputs that pick rows by `R.take`: their names, and the numbers of rows.
    * `compares_classes` says that the targets are of classes. A Trainer then measures accuracy by
      default. With `is_mean`, a batch must hold a target that is not ignored.
    * `loss_weights` is the name of the target that weighs the mean of the loss, as the argument
      `weights` of a loss does.
    * `loss_takes` says what the loss expects of the model, such as probabilities.
    """
    function = required_function(mod, BACKBONE_LOSS)
    if weights is not None:
        check_params(
            "weights", [weights], mod, lambda f: f.params if f is function else (), _TARGET
        )
    if takes not in (None, *TAKEN):
        raise ValueError(f"a loss takes {' or '.join(map(repr, TAKEN))}, but `takes` is {takes!r}")
    ids = class_ids(function)
    if compares_classes and is_mean:
        ids = tuple(replace(one, has_mean=True) for one in ids)
    facts = Facts(ids, row_ids(function), compares_classes, weights, takes)
    return mod.with_attrs(facts.attrs())


def described(loss: Any, function: Function, loss_args: Sequence[Any]) -> Pass:
    """The pass by what a loss says of itself; `function` is the loss for its arguments."""
    return DescribeLoss(
        compares_classes=bool(getattr(loss, "compares_classes", False)),
        is_mean=getattr(loss, "reduction", None) == "mean",
        weights=_weights(loss, function, loss_args),
        takes=getattr(loss, "takes", None),
    )


def _weights(loss: Any, function: Function, loss_args: Sequence[Any]) -> str | None:
    """The name of the argument that weighs the mean of the loss."""
    build = getattr(type(loss), "build", None)
    if build is None or getattr(loss, "reduction", None) != "mean":
        return None
    names = list(signature(build).parameters)[2:]  # behind itself and the builder
    if _WEIGHTS not in names[: len(loss_args)]:
        return None
    return function.params[names.index(_WEIGHTS) - len(loss_args)].name
