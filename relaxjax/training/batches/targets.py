"""The targets of a loss: what a model has to give for them, and by how much each of them counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.expr import Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.types import TensorType, Type, is_integer
from relaxjax.trainable.facts import Facts

Array: TypeAlias = np.ndarray[Any, Any]

_ROUNDING = 0.01  # of half precision

_MENDS = {
    "probabilities": "let it end with R.sigmoid, or train it by BCEWithLogitsLoss",
    "log-probabilities": "let it end with R.nn.log_softmax, or train it by CrossEntropyLoss",
}


def scores_classes(facts: Facts, backbone: Function, targets: Sequence[Var]) -> bool:
    """Whether a model's first output is scores of classes, of which there are several.

    Its loss says so, or its first target has an integer for each of its samples: one-hot targets
    of another loss look as the numbers of a regression do.
    """
    result, compares = backbone.body.body, facts.compares_classes
    output = (result.fields[0] if isinstance(result, Tuple) else result).ty
    if not isinstance(output, TensorType) or output.ndim == -1:
        return compares
    if output.ndim < 2 or (output.dims is not None and 1 in (output.dims[1], output.dims[-1])):
        return False
    return compares or (bool(targets) and _has_ids(targets[0].ty, output.ndim - 1))


def _has_ids(ty: Type | None, ndim: int) -> bool:
    if not isinstance(ty, TensorType):
        return False
    return ty.ndim == ndim and is_integer(ty.dtype)


@dataclass(frozen=True, slots=True)
class LossWeights:
    """By how much the loss of a batch counts among those of others: a mean is over what it counts.

    It says which target weighs the mean of the loss, if any, and which class does not count.
    Weights are of the classes, or of samples and their parts.
    """

    place: int | None = None
    of_classes: bool = False
    ignored: int | None = None

    @staticmethod
    def of(facts: Facts, targets: Sequence[Var], ignored: int | None) -> "LossWeights":
        """Those of a module made by SetupTrainer."""
        names = [target.name for target in targets]
        name = facts.loss_weights
        place = names.index(name) if name in names else None
        return LossWeights(place, facts.compares_classes, ignored)

    def of_batch(self, predictions: Array, truth: Array, targets: Sequence[Any]) -> float:
        """What the mean of a batch was divided by, up to a factor that all batches share."""
        if self.place is None:
            is_counted = self.ignored is not None
            return int(np.count_nonzero(truth != self.ignored)) if is_counted else len(truth)
        weights = np.asarray(targets[self.place], "float64")
        if not self.of_classes:
            return len(truth) * float(weights.mean()) if weights.size else 0
        if truth.ndim == predictions.ndim:
            axis = 1 if truth.ndim > 2 else -1
            return float((np.moveaxis(truth.astype("float64"), axis, -1) @ weights).sum())
        counted = (truth != self.ignored) & (truth >= 0) & (truth < len(weights))
        return float(weights[truth[counted]].sum())


def check_taken(takes: str | None, predictions: Any) -> None:
    """Raise where a model gives what its loss is not for; the loss would clip it, or have no
    bound.

    Losses of probabilities, or of their logarithms, would take any scores in silence.
    """
    if takes not in _MENDS:
        return
    first: Any = predictions[0] if isinstance(predictions, tuple) else predictions
    found = np.asarray(first).astype("float32")
    least, most = (0.0, 1.0) if takes == "probabilities" else (-np.inf, 0.0)
    if (found < least - _ROUNDING).any() or (found > most + _ROUNDING).any():
        raise ValueError(
            f"the loss takes {takes}, {'at most' if least else '0 to'} {most:g}, but the model "
            f"gives numbers of {np.nanmin(found):.4g} to {np.nanmax(found):.4g}: {_MENDS[takes]}"
        )


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
