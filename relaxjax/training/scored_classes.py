"""Scores of classes and the true classes, as metrics compare them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.expr import Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType, Type

COMPARES_CLASSES = "compares_classes"  # the attribute of a module whose loss says so of itself

Array: TypeAlias = np.ndarray[Any, Any]


def scores_classes(mod: IRModule, backbone: Function, targets: Sequence[Var]) -> bool:
    """Whether a model's first output is scores of classes, of which there are several.

    Its loss says so, or its first target has an integer for each of its samples: one-hot targets
    of another loss look as the numbers of a regression do.
    """
    result, compares = backbone.body.body, bool(mod.attrs.get(COMPARES_CLASSES, False))
    output = (result.fields[0] if isinstance(result, Tuple) else result).ty
    if not isinstance(output, TensorType) or output.ndim == -1:
        return compares
    if output.ndim < 2 or (output.dims is not None and 1 in (output.dims[1], output.dims[-1])):
        return False
    return compares or (bool(targets) and _has_ids(targets[0].ty, output.ndim - 1))


def _has_ids(ty: Type | None, ndim: int) -> bool:
    if not isinstance(ty, TensorType):
        return False
    return ty.ndim == ndim and (ty.dtype or "").startswith(("int", "uint"))


def counted_classes(
    metric: str, scores: Array, targets: Array, ignored: int | None
) -> tuple[Array, Array]:
    """The scores with their classes last, and the ids of the classes, of all samples that count.

    Targets are ids, or one-hot. Those of a class to ignore do not count, nor do negative ones.
    """
    axis = _class_axis(metric, scores, targets)
    classes = targets.argmax(axis) if targets.ndim == scores.ndim else targets.astype("int64")
    counted = (classes >= 0) & (classes != ignored)
    scores, classes = np.moveaxis(scores, axis, -1)[counted], classes[counted]
    if classes.size and classes.max() >= scores.shape[-1]:
        raise ValueError(
            f"{metric} is of {scores.shape[-1]} classes, 0 to {scores.shape[-1] - 1}, but the "
            f"targets hold {classes.max()}"
        )
    return scores, classes


def _class_axis(metric: str, scores: Array, targets: Array) -> int:
    """The axis of the classes: that without which scores have the shape of class ids, or along
    which one-hot targets add up to one. Of (N, C) it is the last, of (N, C, d1, ...) the second, or
    the last."""
    axes = [1, scores.ndim - 1][scores.ndim == 2 :] if scores.ndim >= 2 else []
    if scores.shape == targets.shape:
        fitting = axes if len(axes) == 1 else [a for a in axes if np.allclose(targets.sum(a), 1)]
    else:
        fitting = [a for a in axes if np.delete(scores.shape, a).tolist() == list(targets.shape)]
    if len(fitting) != 1 or scores.shape[fitting[0]] == 1:
        raise ValueError(
            f"{metric} compares scores of several classes with class ids or one-hot targets, but "
            f"the model gives numbers of shape {scores.shape}, and the targets are of shape "
            f"{targets.shape}: give `metrics` another, or metrics=[] for none"
        )
    return fitting[0]
