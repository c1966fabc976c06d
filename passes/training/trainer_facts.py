"""What a trainer is to know of the arguments of a model and its loss, as attributes of a module."""

from inspect import signature
from typing import Any

from relaxjax.ir.function import Function

from .class_ids import CLASS_IDS, class_ids
from .row_ids import ROW_IDS, row_ids

COMPARES_CLASSES = "compares_classes"  # the attribute by which a trainer measures accuracy
LOSS_WEIGHTS = "loss_weights"  # the attribute by which a trainer takes the mean of losses
LOSS_TAKES = "loss_takes"  # the attribute by which a trainer refuses other predictions
_WEIGHTS = "weights"  # what the argument of a loss is called that weighs its mean


def facts_of(function: Function, loss: Any, loss_args: int) -> dict[str, Any]:
    """The attributes that a trainer looks for, of the function with the loss."""
    ids, compares = class_ids(function), bool(getattr(loss, COMPARES_CLASSES, False))
    if compares and loss.reduction == "mean":
        ids = [[*one[:-1], True] for one in ids]
    return {
        CLASS_IDS: ids,
        ROW_IDS: row_ids(function),
        COMPARES_CLASSES: compares,
        LOSS_WEIGHTS: _weights(function, loss, loss_args),
        LOSS_TAKES: getattr(loss, "takes", None),
    }


def _weights(function: Function, loss: Any, loss_args: int) -> str | None:
    """The name of the argument that weighs the mean of the loss."""
    build = getattr(type(loss), "build", None)
    if build is None or getattr(loss, "reduction", None) != "mean":
        return None
    names = list(signature(build).parameters)[2:]  # behind itself and the builder
    if _WEIGHTS not in names[:loss_args]:
        return None
    return function.params[names.index(_WEIGHTS) - loss_args].name
