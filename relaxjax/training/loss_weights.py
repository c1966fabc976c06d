"""By how much the loss of a batch counts among those of others: a mean is over what it counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule

from .scored_classes import COMPARES_CLASSES

LOSS_WEIGHTS = "loss_weights"  # the attribute that says which target weighs the loss

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LossWeights:
    """Which target weighs the mean of the loss, if any, and which class does not count.

    Weights are of the classes, or of samples and their parts.
    """

    place: int | None = None
    of_classes: bool = False
    ignored: int | None = None

    @staticmethod
    def of(mod: IRModule, targets: Sequence[Var], ignored: int | None) -> "LossWeights":
        """Those of a module made by SetupTrainer."""
        names = [target.name for target in targets]
        name = mod.attrs.get(LOSS_WEIGHTS)
        of_classes = bool(mod.attrs.get(COMPARES_CLASSES, False))
        return LossWeights(names.index(name) if name in names else None, of_classes, ignored)

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
