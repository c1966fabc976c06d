"""A learning rate that becomes smaller where a training does not get better."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .callbacks import Callback, Direction, Monitor
from .number_checks import is_amount, is_count
from .reports.epoch_report import EpochReport
from .trainer import Trainer

_RATE = "hyperparams_learning_rate"  # as from_optax names what optax.inject_hyperparams keeps
_SCHEDULE = "learning_rate_count"


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by `factor` after `patience` epochs that were no better.

    The rate must be a part of the optimizer's state, where optax keeps it by
    `from_optax(optax.inject_hyperparams(optax.adam)(learning_rate=0.001))`. How often it became
    smaller follows from the reports, so a training that is resumed goes on as if it had not
    ended: make the callback before `fit`, while the rate is the first one.

    patience: how many epochs, since the best one or since the last change, not to be better.
    least_gain: an epoch is better by more than this.
    least_rate: the rate does not become smaller than this.
    """

    def __init__(
        self,
        trainer: Trainer,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 3,
        least_gain: float = 0.0,
        direction: Direction = "auto",
        least_rate: float = 0.0,
    ) -> None:
        if not is_amount(factor) or not 0 < factor < 1:
            raise ValueError(f"`factor` must be a number between 0 and 1, but it is {factor!r}")
        if not is_count(patience, 1):
            raise ValueError(f"`patience` must be at least 1 epoch, but it is {patience!r}")
        for name, value in (("least_gain", least_gain), ("least_rate", least_rate)):
            if not is_amount(value):
                raise ValueError(f"`{name}` must be a number of at least 0, but it is {value!r}")
        self.trainer = trainer
        self.monitor = Monitor(monitor, direction)
        self.factor = factor
        self.patience = patience
        self.least_gain = least_gain
        self.least_rate = least_rate
        self._first = _rates(trainer)

    def stops(self, reports: Sequence[EpochReport]) -> bool:
        """Never; but asked before each epoch, the first one of a resumed training too."""
        factor = self.factor ** self._changes(self.monitor.holding(reports))
        now = _rates(self.trainer)
        for name, first in self._first.items():
            rate = np.asarray(max(float(first) * factor, self.least_rate), first.dtype)
            if rate != now[name]:
                self.trainer._load(self.trainer.layout.optimizer, {name: rate})
        return False

    def _changes(self, reports: Sequence[EpochReport]) -> int:
        """How often there were so many epochs no better than the best one before them."""
        changes = waited = 0
        for count in range(1, len(reports) + 1):
            is_better = self.monitor.best(reports[:count], self.least_gain) == count - 1
            waited = 0 if is_better else waited + 1
            if waited == self.patience:
                changes, waited = changes + 1, 0
        return changes


def _rates(trainer: Trainer) -> dict[str, Any]:
    """The learning rates in the state of the optimizer, by the names of its arrays."""
    group = trainer.layout.optimizer
    if any(mark.endswith(_SCHEDULE) for mark in group.marks):
        raise ValueError(
            "the learning rate follows a schedule, which would overwrite every change: give "
            "optax.inject_hyperparams a number"
        )
    arrays = trainer._export(group)
    marked = zip(arrays.items(), group.marks, strict=False)
    found = {name: np.asarray(array) for (name, array), mark in marked if mark.endswith(_RATE)}
    if not found:
        raise ValueError(
            "the learning rate is a number in the program of the optimizer, where no callback can "
            "change it: keep it in the state, by "
            "from_optax(optax.inject_hyperparams(optax.adam)(learning_rate=0.001))"
        )
    return found
