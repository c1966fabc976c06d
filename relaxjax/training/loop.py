"""The loop over epochs and batches."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np

from .callbacks import Callback
from .checkpoints import Checkpoints, Position
from .feeding import Batch, ahead, calls
from .metrics import MetricLike, evaluate, metric
from .progress import EpochReport, Reporter, reporter_for_output

Data: TypeAlias = Iterable[Batch] | Callable[[int], Iterable[Batch]]


class Trainable(Protocol):
    """What the loop asks of a trainer."""

    @property
    def batch_size(self) -> int | None: ...

    def update(self, inputs: Any, targets: Any) -> jax.Array: ...

    def update_many(self, inputs: Any, targets: Any) -> jax.Array: ...

    def place(self, batch: Batch) -> Batch: ...

    def predict(self, *inputs: Any) -> Any: ...

    def save(self, path: Path, notes: Mapping[str, str] | None = None) -> None: ...

    def load(self, path: Path) -> None: ...


def fit(
    trainer: Trainable,
    data: Data,
    epochs: int = 1,
    eval_data: Data | None = None,
    reporter: Reporter | None = None,
    *,
    metrics: Sequence[MetricLike] = ("accuracy",),
    callbacks: Sequence[Callback] = (),
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
    steps_per_call: int = 1,
    prefetch: int = 0,
) -> list[EpochReport]:
    """Train until `epochs` epochs are made; the reports give each epoch's mean loss and metrics.

    Args:
        trainer: the trainer.
        data: batches `(inputs, targets)`: something to iterate over once an epoch, or a function
            from the number of the epoch, counted from 0, to its batches.
        epochs: how many epochs there are to be in all.
        eval_data: the same for the data to measure the metrics on, after each epoch.
        reporter: shows how it goes: bars on a terminal, else a line an epoch.
        metrics: names such as "accuracy" and "perplexity", `top_k(5)`, or functions of predictions
            and targets that give a value for each sample.
        callbacks: those who follow the training and may end it, such as `EarlyStopping()` and
            `JsonLines("log.jsonl")`.
        checkpoints: where and when to save, such as `Checkpoints("run", every=1000)`.
        resume: go on from the last of the checkpoints. `data` must give the same batches again; the
            weights are then, bit for bit, those of a training that was never interrupted.
        steps_per_call: how many steps one call of the device makes, for small models whose steps
            are shorter than a call.
        prefetch: how many calls ahead batches are copied to the device.
    """
    _check_counts(steps_per_call, prefetch)
    if resume and checkpoints is None:
        raise ValueError("resume=True needs to know from where: give `checkpoints` too")
    position = Position()
    if checkpoints is not None:
        if resume:
            position = checkpoints.resume(trainer)
        else:
            checkpoints.check_empty()
    plan = _Plan(
        trainer=trainer,
        reporter=reporter or reporter_for_output(),
        metrics=list(map(metric, metrics)),
        callbacks=callbacks,
        checkpoints=checkpoints,
        steps_per_call=steps_per_call,
        prefetch=prefetch,
    )
    reports = list(position.reports)
    while len(reports) < epochs and not plan.stops(reports):
        reports.append(plan.epoch(data, eval_data, epochs, position))
        position = Position(tuple(reports))
        plan.finish_epoch(position)
    return reports


@dataclass(frozen=True)
class _Plan:
    """Who takes part in a training, and how its steps are made."""

    trainer: Trainable
    reporter: Reporter
    metrics: Sequence[MetricLike]
    callbacks: Sequence[Callback]
    checkpoints: Checkpoints | None
    steps_per_call: int
    prefetch: int

    def stops(self, reports: Sequence[EpochReport]) -> bool:
        return bool(reports) and any(callback.stops(reports) for callback in self.callbacks)

    def epoch(
        self, data: Data, eval_data: Data | None, epochs: int, position: Position
    ) -> EpochReport:
        """One epoch from where it stands to its end."""
        number = len(position.reports)
        started = time.perf_counter()
        batches = _batches(data, number)
        last_time = position.reports[-1].steps if position.reports else None
        known = len(batches) if isinstance(batches, Sized) else last_time
        self.reporter.start(number + 1, epochs, known)
        position = self.steps(batches, position)
        if not position.steps:
            raise ValueError(
                f"epoch {number + 1} had no batches: give `data` as a list, a loader, or a "
                "function from the epoch to its batches; an iterator is used up after one epoch"
            )
        seconds = time.perf_counter() - started
        found: dict[str, float] = {}
        if eval_data is not None:
            found = evaluate(self.trainer, _batches(eval_data, number), self.metrics)
        loss = position.loss_sum / position.steps
        return EpochReport(number + 1, epochs, loss, found, position.steps, seconds)

    def steps(self, batches: Iterable[Batch], position: Position) -> Position:
        """Make the steps on all batches that the position leaves to be made."""
        unread: list[Any] = []
        for count, losses in self.losses(batches, position.steps):
            unread.append(losses)
            before = position.total_steps
            position = Position(position.reports, position.steps + count, position.loss_sum)
            self.tell(before, losses)
            if self.checkpoints is not None and self.checkpoints.is_due(
                before, position.total_steps
            ):
                position, unread = _read(position, unread), []
                self.checkpoints.write(self.trainer, position)
        return _read(position, unread)

    def losses(self, batches: Iterable[Batch], skip: int) -> Iterator[tuple[int, Any]]:
        """Each call's number of steps, and its losses, which the device may still be computing."""
        planned = calls(batches, self.steps_per_call, skip)
        for count, batch in ahead(planned, self.prefetch, self.trainer.place):
            update = self.trainer.update_many if count > 1 else self.trainer.update
            yield count, update(*batch)

    def tell(self, before: int, losses: Any) -> None:
        each = losses if np.ndim(losses) else [losses]
        for step, loss in enumerate(each, start=before + 1):
            self.reporter.step(loss)
            for callback in self.callbacks:
                callback.step(step, loss)

    def finish_epoch(self, position: Position) -> None:
        self.reporter.end(position.reports[-1])
        if self.checkpoints is not None:
            self.checkpoints.write_epoch(self.trainer, position)
        for callback in self.callbacks:
            callback.epoch(position.reports)


def _read(position: Position, unread: Sequence[Any]) -> Position:
    """The position with the losses of its last steps read from the device."""
    arrays = [np.asarray(x, "float64") for x in jax.device_get(list(unread))]
    total = position.loss_sum + float(sum(array.sum() for array in arrays))
    return Position(position.reports, position.steps, total)


def _batches(data: Data, epoch: int) -> Iterable[Batch]:
    return data(epoch) if callable(data) else data


def _check_counts(steps_per_call: int, prefetch: int) -> None:
    if steps_per_call < 1:
        raise ValueError(f"`steps_per_call` must be at least 1, but it is {steps_per_call}")
    if prefetch < 0:
        raise ValueError(f"`prefetch` must be at least 0, but it is {prefetch}")
