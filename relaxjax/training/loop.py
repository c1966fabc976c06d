"""The loop over epochs and batches."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Unpack

import jax
import numpy as np

from relaxjax.autodiff.out_of_memory import ToldOfMemory
from relaxjax.trainable.names import LOSS_SCALE

from .batches.data import Data, Given, batches_of, check_goes_on, check_lasts, lasting, length_of
from .batches.feeding import PART, Batch, Call, Stage, ahead, calls, kept
from .batches.targets import check_taken
from .callbacks import Callback, Monitor
from .checkpoints import Checkpoints, Position
from .devices.processes import are_several, in_step, is_first
from .fit_options import CheckNumerics, FitOptions, StepsPerCall, check_options
from .inputs import as_array
from .metrics import (
    EVAL_LOSS,
    REPORTED,
    Metric,
    MetricLike,
    default_metrics,
    evaluate_with_loss,
    metrics_of,
)
from .number_checks import is_count
from .reports.epoch_report import EpochReport
from .reports.history import History
from .reports.progress import Lines, Reporter, reporter_for_output
from .soundness import Guard, check_losses, check_params, warn_of_zeros
from .state_cell import Interrupts
from .trained_model import TrainedModel

MOST_UNREAD = 1024  # losses that the device holds; reading them waits for it


def fit(
    trainer: TrainedModel,
    data: Data,
    epochs: int = 1,
    eval_data: Data | None = None,
    reporter: Reporter | None = None,
    **options: Unpack[FitOptions],
) -> History:
    """Train until `epochs` epochs are made; the reports give each epoch's mean loss and metrics.

    Args:
        trainer: the trainer.
        data: batches `(inputs, targets)`, or mappings by their names: something to iterate over
            once an epoch, or a function from the number of the epoch, counted from 0, to its
            batches.
        epochs: how many epochs there are to be in all.
        eval_data: the same for the data to measure the loss and the metrics on, after each epoch.
        reporter: shows how it goes: a curve in a notebook, bars on a terminal, else lines.
        options: what `FitOptions` explains.
    """
    check_options(options)
    _check_reporter(reporter)
    _check_epochs(epochs)
    if not is_first():  # the first process shows, and writes logs, for all
        reporter = Lines(lambda line: None)
        kept = [one for one in options.get("callbacks", ()) if not one.is_for_first_process]
        options["callbacks"] = kept
    plan = _Plan(trainer, reporter or reporter_for_output(), **options)
    plan.check_monitors(["loss", *(plan.measured if eval_data is not None else [])])
    position = plan.start()
    reports = History(position.reports)
    if reports and len(reports) < epochs:
        check_goes_on(data, reports)
    check_lasts("data", data, epochs - len(reports))
    check_lasts("eval_data", eval_data, epochs - len(reports))
    if len(reports) < epochs:
        plan.try_measuring(eval_data)
        if not position.total_steps:
            warn_of_zeros(trainer)
    with ExitStack() as at_the_end:
        for callback in reversed(plan.callbacks):
            at_the_end.callback(callback.close)  # of each, even if that of another one fails
        if plan.checkpoints is not None:
            at_the_end.enter_context(plan.checkpoints.finishing())
        at_the_end.enter_context(plan.interrupts)
        at_the_end.enter_context(ToldOfMemory(trainer.memory))
        while len(reports) < epochs and not plan.stops(reports):
            reports.append(plan.epoch(data, eval_data, epochs, position))
            position = Position(tuple(reports))
            plan.finish_epoch(position)
    return reports


@dataclass(frozen=True)
class _Plan:
    """Who takes part in a training, and how its steps are made."""

    trainer: TrainedModel
    reporter: Reporter
    metrics: Sequence[MetricLike] | None = None
    callbacks: Sequence[Callback] = ()
    checkpoints: Checkpoints | None = None
    resume: bool = False
    steps_per_call: StepsPerCall = "auto"
    prefetch: int = 0
    check_numerics: CheckNumerics = "epochs"
    chosen: list[Metric] = field(init=False)
    guard: Guard | None = field(init=False)
    interrupts: Interrupts = field(init=False, default_factory=Interrupts)

    def __post_init__(self) -> None:
        chosen = default_metrics(self.trainer) if self.metrics is None else self.metrics
        object.__setattr__(self, "chosen", metrics_of(chosen, REPORTED))
        checks_steps = self.check_numerics != "epochs" and self.check_numerics
        object.__setattr__(self, "guard", Guard(self.trainer) if checks_steps else None)

    @property
    def measured(self) -> list[str]:
        """The names of what evaluation data tells."""
        return [EVAL_LOSS, *(each.name for each in self.chosen)]

    def check_monitors(self, names: Collection[str]) -> None:
        """Raise where somebody goes by a number that is none of those reported."""
        for one in (self.checkpoints, *self.callbacks):
            monitor = getattr(one, "monitor", None)
            if isinstance(monitor, Monitor):
                monitor.check(names)

    def try_measuring(self, eval_data: Data | None) -> None:
        """Measure on the first of listed batches: what is wrong is found before the first epoch.

        Functions of one's own may count their calls, and other data what is taken from it.
        """
        if isinstance(eval_data, list | tuple):
            of_classes = [each for each in self.chosen if each.of_classes]
            evaluate_with_loss(self.trainer, eval_data[:1], of_classes)

    def start(self) -> Position:
        """Where the training begins: at its first step, or where the last checkpoint left it."""
        if self.checkpoints is None:
            return Position()
        self.checkpoints.make_folder()
        if self.resume:
            return self.checkpoints.resume(self.trainer)
        self.checkpoints.check_empty()
        return Position()

    def stops(self, reports: Sequence[EpochReport]) -> bool:
        return bool(reports) and any(callback.stops(reports) for callback in self.callbacks)

    def epoch(
        self, data: Data, eval_data: Data | None, epochs: int, position: Position
    ) -> EpochReport:
        """One epoch from where it stands to its end."""
        number = len(position.reports)
        started = time.perf_counter()
        batches = batches_of(data, number)
        measured = None if eval_data is None else lasting("eval_data", eval_data, number)
        last_time = position.reports[-1].steps if position.reports else None
        self.reporter.start(number + 1, epochs, length_of(batches, last_time))
        position = self.steps(batches, position)
        if not position.steps:
            raise ValueError(
                f"epoch {number + 1} had no batches: give `data` as a list, a loader, or a "
                "function from the epoch to its batches; an iterator is used up after one epoch, "
                "and with drop_last=True there are none where the samples do not fill one"
            )
        seconds = time.perf_counter() - started
        found: dict[str, float] = {}
        if measured is not None:
            found = evaluate_with_loss(self.trainer, measured, self.chosen)
        loss = position.loss_sum / position.steps
        return EpochReport(number + 1, epochs, loss, found, position.steps, seconds)

    def steps(self, batches: Given, position: Position) -> Position:
        """Make the steps on all batches that the position leaves to be made."""
        unread: list[tuple[int, Any]] = []
        for count, losses in self.losses(batches, position):
            unread.append((count, losses))
            if self.checkpoints is not None:
                self.checkpoints.check()
            self.tell(position.total_steps, count, losses)
            position = Position(position.reports, position.steps + count, position.loss_sum)
            if len(unread) == MOST_UNREAD:
                position, unread = self.read(position, unread), []
            if self.checkpoints is not None and self.checkpoints.is_due(position.total_steps):
                position, unread = self.read(position, unread), []
                self.check_params(position.total_steps, len(position.reports) + 1)
                self.checkpoints.write(self.trainer, position)
        return self.read(position, unread)

    def losses(self, batches: Given, position: Position) -> Iterator[tuple[int, Any]]:
        """Each call's number of steps, and its losses, which the device may still be computing."""
        if are_several():
            batches = in_step(batches, _kind_of_batch)
        pairs = self.trainer.pairs(batches, are_parts=True)
        if not position.total_steps:
            pairs = self.first_looked_at(pairs)
        stage = self.trainer.stage if self.guard is None else Stage()  # it may look at them again
        first = position.total_steps - position.steps
        planned = calls(
            pairs, self.size_of_calls, position.steps, stage, lambda step: self.pauses(first + step)
        )
        made = position.total_steps
        if not self.prefetch and not isinstance(batches, list | tuple):
            planned = map(kept, planned)  # `place` copies, too, and a list holds all at once
        for call in ahead(planned, self.prefetch, self.trainer.place):
            self.interrupts.hold()
            try:
                losses = self.update(made, call)
                stage.read_by(losses)
            finally:
                self.interrupts.release()
            yield call.steps, losses
            made += call.steps

    def first_looked_at(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches; what the model gives for the first one is looked at, if its loss asks."""
        takes = None if are_several() else self.trainer.facts.loss_takes
        for place, batch in enumerate(batches):
            if not place and takes is not None:
                check_taken(takes, self.trainer.evaluate(*batch)[1])
            yield batch

    @property
    def size_of_calls(self) -> int | Callable[[Batch], int]:
        """How many steps a call makes: one where somebody wants to see the trainer after each."""
        if self.steps_per_call != "auto":
            return self.steps_per_call
        watched = any(_has_own_step(c) and not c.looks_at_loss_only for c in self.callbacks)
        return 1 if watched else self.trainer.best_steps_per_call

    def pauses(self, step: int) -> bool:
        """Whether the trainer is looked at after this step, so that a call has to end there."""
        return self.checkpoints is not None and self.checkpoints.is_due(step)

    def update(self, before: int, call: Call) -> Any:
        if self.guard is not None:
            return self.guard.update(before, call)
        if call.is_stacked:
            return self.trainer.update_many(*call.batch, call.steps)
        return self.trainer.update(*call.batch)

    def tell(self, before: int, count: int, losses: Any) -> None:
        listeners = list(filter(_has_own_step, self.callbacks))
        is_reported = getattr(self.reporter, "shows_steps", True)
        if not listeners and not is_reported:
            return  # taking the losses apart would cost more than a step may
        each = list(losses)[:count] if np.ndim(losses) else [losses]
        for step, loss in enumerate(each, start=before + 1):
            if is_reported:
                self.reporter.step(loss)
            for callback in listeners:
                callback.step(step, loss)

    def read(self, position: Position, unread: Sequence[tuple[int, Any]]) -> Position:
        """The position with the losses of its last steps read from the device, and found sound."""
        if self.guard is not None:
            self.guard.read()
        total = position.loss_sum
        losses = _on_host([losses for _, losses in unread])
        read: list[float] = []
        for (count, _), each in zip(unread, losses, strict=True):
            read.extend(map(float, each[:count] if each.ndim else [each]))
        for loss in read:
            total += loss
        if self.check_numerics and not self.may_leave_out_steps:
            first = position.total_steps - len(read) + 1
            check_losses(read, first, len(position.reports) + 1)
        return Position(position.reports, position.steps, total)

    @property
    def may_leave_out_steps(self) -> bool:
        """Whether a step that is not finite only makes the scale of the loss smaller."""
        is_dynamic = self.trainer.mod.attrs.get(LOSS_SCALE) == "dynamic"
        return is_dynamic and (self.trainer.loss_scale or 1) > 1

    def check_params(self, step: int, epoch: int) -> None:
        """Raise where a parameter is not finite, unless nobody wants to know."""
        if self.check_numerics:
            check_params(self.trainer, step, epoch)

    def finish_epoch(self, position: Position) -> None:
        self.reporter.end(position.reports[-1])
        self.check_params(position.total_steps, len(position.reports))
        if self.checkpoints is not None:
            self.checkpoints.write_epoch(self.trainer, position)
        self.check_monitors(["loss", *position.reports[-1].metrics])
        for callback in self.callbacks:
            callback.epoch(position.reports)


def _on_host(arrays: Sequence[Any]) -> list[Any]:
    """The arrays in the host's memory. A device is asked for all at once; the CPU need not be."""
    first = arrays[0] if arrays else None
    if isinstance(first, jax.Array) and {d.platform for d in first.devices()} != {"cpu"}:
        return list(jax.device_get(list(arrays)))
    return [np.asarray(array) for array in arrays]


def _kind_of_batch(batch: Any) -> list[str]:
    """The shapes and dtypes of a batch, nested in any way."""
    arrays = (as_array(PART, leaf) for leaf in jax.tree.leaves(batch))
    return [f"{array.dtype}{list(array.shape)}" for array in arrays]


def _has_own_step(callback: Callback) -> bool:
    return type(callback).step is not Callback.step


def _check_epochs(epochs: Any) -> None:
    if np.ndim(epochs):
        raise TypeError(
            "`epochs` must be an integer, but it is an array: `data` is batches of inputs and "
            "targets together, which relaxjax.datasets.batches(inputs, targets, 32) cuts"
        )
    if isinstance(epochs, bool) or not hasattr(epochs, "__index__"):
        raise TypeError(f"`epochs` must be an integer, but it is {epochs!r}")
    if not is_count(epochs, 0):
        raise ValueError(f"`epochs` must be at least 0, but it is {epochs}")


def _check_reporter(reporter: Any) -> None:
    needed = ("start", "step", "end")
    is_one = not isinstance(reporter, type) and all(hasattr(reporter, name) for name in needed)
    if reporter is not None and not is_one:
        raise TypeError(
            "`reporter` must have the methods start, step and end, as Lines() has them, but it is "
            f"{reporter!r}"
        )
