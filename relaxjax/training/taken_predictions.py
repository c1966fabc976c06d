"""Losses of probabilities, or of their logarithms, which would take any scores in silence."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from relaxjax.ir.module import IRModule

from .staging import Batch

LOSS_TAKES = "loss_takes"  # the attribute that says of what a loss is
_ROUNDING = 0.01  # of half precision

_MENDS = {
    "probabilities": "let it end with R.sigmoid, or train it by BCEWithLogitsLoss",
    "log-probabilities": "let it end with R.nn.log_softmax, or train it by CrossEntropyLoss",
}


class Measured(Protocol):
    """What looking at predictions asks of a trainer."""

    mod: IRModule

    def evaluate(self, inputs: Any, targets: Any) -> tuple[Any, Any]: ...


def check_taken(mod: IRModule, predictions: Any) -> None:
    """Raise where a model gives what its loss is not for; the loss would clip it, or have no
    bound."""
    takes = mod.attrs.get(LOSS_TAKES)
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


def first_looked_at(trainer: Measured, batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches; what the model gives for the first one is looked at, if its loss asks for it."""
    for place, batch in enumerate(batches):
        if not place and LOSS_TAKES in trainer.mod.attrs:
            check_taken(trainer.mod, trainer.evaluate(*batch)[1])
        yield batch
