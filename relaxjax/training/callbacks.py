"""Those who follow a training and may end it."""

import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from relaxjax.training.reports.epoch_report import numbers_of

from .number_checks import check_every, is_amount, is_count
from .reports.epoch_report import EpochReport

Direction: TypeAlias = Literal["auto", "lowest", "highest"]

_LOW_IS_GOOD = ("loss", "eval_loss", "perplexity")


class Callback:
    """Someone who follows a training: a subclass says what it wants to know.

    Where a subclass has a `step`, calls of the device make one step each unless `steps_per_call`
    says otherwise, so that it finds the trainer as that step left it. One that looks at the loss
    alone says `looks_at_loss_only = True`, and is told of the steps of a call after all of them.
    One that writes, for which one process is enough, says `is_for_first_process = True`.
    """

    looks_at_loss_only: ClassVar[bool] = False
    is_for_first_process: ClassVar[bool] = False

    def step(self, step: int, loss: Any) -> None:
        """A step was made, counted from 1 over all epochs; reading the loss waits for it."""

    def epoch(self, reports: Sequence[EpochReport]) -> None:
        """An epoch was finished; its report is the last one."""

    def stops(self, reports: Sequence[EpochReport]) -> bool:
        """Whether to train no further, asked before each epoch with all reports so far."""
        return False

    def close(self) -> None:
        """The training is over, or an error ended it."""


def check_is_asked(callback: Callback) -> None:
    """Raise where a subclass defines nothing that is ever asked of it, as by names of elsewhere."""
    asked = ("step", "epoch", "stops", "close")
    own = type(callback)
    if own is not Callback and all(getattr(own, x) is getattr(Callback, x) for x in asked):
        raise TypeError(
            f"the callback {own.__name__} has none of the methods that `fit` calls, which are "
            "step(step, loss), epoch(reports), stops(reports) and close()"
        )


@dataclass(frozen=True, slots=True)
class Monitor:
    """A number of the reports that is to become as low or as high as it can.

    `name` is "loss", "eval_loss" or that of a metric. "auto" takes low losses and a low perplexity
    for good, and high shares of right answers; of other metrics the direction has to be said.
    """

    name: str
    direction: Direction = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(
                'what to go by is a name, such as "loss" or that of a metric, but it is '
                f"{self.name!r}"
            )
        if self.direction not in ("auto", "lowest", "highest"):
            raise ValueError(
                f'`direction` must be "auto", "lowest" or "highest", but it is {self.direction!r}'
            )

    def gain(self, report: EpochReport) -> float:
        """The number, turned so that more is better."""
        numbers = numbers_of(report)
        self.check(numbers)
        low = self.name in _LOW_IS_GOOD if self.direction == "auto" else self.direction == "lowest"
        return -numbers[self.name] if low else numbers[self.name]

    def holding(self, reports: Sequence[EpochReport]) -> list[EpochReport]:
        """The reports that hold the number: before a training was resumed, it may have had none."""
        return [report for report in reports if self.name in numbers_of(report)]

    def check(self, names: Collection[str]) -> None:
        """Raise where the number is none of those that the reports hold, or may be an error that is
        to become low."""
        if self.name not in names:
            raise ValueError(
                f"there is no `{self.name}` to go by, only {', '.join(names)}: name one of "
                "these, or give `fit` the metric and evaluation data"
            )
        is_known = self.name in (*_LOW_IS_GOOD, "accuracy") or self.name.startswith("top ")
        if self.direction == "auto" and not is_known:
            raise ValueError(
                f"whether a low `{self.name}` is good or a high one must be said: give "
                'direction="lowest" or "highest" beside its name'
            )

    def best(self, reports: Sequence[EpochReport], least_gain: float = 0.0) -> int:
        """The place of the best report: the last one that beat all before it by enough.

        Any number beats NaN.
        """
        gains = [self.gain(report) for report in reports]
        best = 0
        for index, gain in enumerate(gains):
            if gain > gains[best] + least_gain or (math.isnan(gains[best]) > math.isnan(gain)):
                best = index
        return best


class EarlyStopping(Callback):
    """Ends a training that for `patience` epochs did not become better by over `least_gain`."""

    def __init__(
        self,
        monitor: str = "accuracy",
        patience: int = 3,
        least_gain: float = 0.0,
        direction: Direction = "auto",
    ) -> None:
        if not is_count(patience, 1):
            raise ValueError(f"`patience` must be at least 1 epoch, but it is {patience!r}")
        if not is_amount(least_gain):
            raise ValueError(
                f"`least_gain` must be a number of at least 0, but it is {least_gain!r}"
            )
        self.monitor = Monitor(monitor, direction)
        self.patience = patience
        self.least_gain = least_gain

    def stops(self, reports: Sequence[EpochReport]) -> bool:
        found = self.monitor.holding(reports)
        return bool(found) and (
            len(found) - 1 - self.monitor.best(found, self.least_gain) >= self.patience
        )


class JsonLines(Callback):
    """Writes JSON objects, one a line: each epoch's numbers, and every so many steps a loss.

    NaN and infinities, which JSON does not have, are null.
    """

    looks_at_loss_only = True
    is_for_first_process = True

    def __init__(self, path: str | os.PathLike[str], every: int = 0) -> None:
        check_every(every)
        self.path = Path(path)
        self.every = every

    def step(self, step: int, loss: Any) -> None:
        if self.every and step % self.every == 0:
            self._write({"step": step, "loss": float(loss)})

    def epoch(self, reports: Sequence[EpochReport]) -> None:
        last = reports[-1]
        numbers = {"epoch": last.epoch, "loss": last.loss, **last.metrics}
        self._write({**numbers, "steps": last.steps, "seconds": round(last.seconds, 3)})

    def _write(self, record: Mapping[str, float]) -> None:
        """Append a line, whole or not at all, whether the training dies or the disk is full."""
        known = {name: x if math.isfinite(x) else None for name, x in record.items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            end = file.tell()
            left = (json.dumps(known) + "\n").encode()
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                if file.tell() > end:
                    file.truncate(end)
                raise


class TensorBoard(Callback):
    """Writes each epoch's numbers, and every so many steps a loss, into a folder of events.

    tensorboardX writes them: `pip install "relaxjax[tb]"`. TensorBoard shows them:
    `tensorboard --logdir FOLDER`.
    """

    looks_at_loss_only = True
    is_for_first_process = True

    def __init__(self, folder: str | os.PathLike[str], every: int = 100) -> None:
        check_every(every)
        self.folder = os.fspath(folder)
        self.every = every
        self._writer_class = _writer_class()
        self._open: Any = None

    @property
    def writer(self) -> Any:
        """The writer of this training; each has a file of its own in the folder."""
        if self._open is None:
            self._open = self._writer_class(self.folder)
        return self._open

    def step(self, step: int, loss: Any) -> None:
        if self.every and step % self.every == 0:
            self.writer.add_scalar("loss/step", float(loss), step)

    def epoch(self, reports: Sequence[EpochReport]) -> None:
        last = reports[-1]
        steps = sum(report.steps for report in reports)
        speed = last.steps / max(last.seconds, 1e-9)
        numbers = {"loss/epoch": last.loss, "steps_per_second": speed}
        for name, value in {**numbers, **last.metrics}.items():
            self.writer.add_scalar(name, value, steps)
        self.writer.flush()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _writer_class() -> Any:
    try:
        return import_module("tensorboardX").SummaryWriter
    except ImportError as error:
        raise ImportError(
            "events for TensorBoard are written by tensorboardX, which is not installed: "
            'pip install "relaxjax[tb]"'
        ) from error
