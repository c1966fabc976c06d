"""The loop over epochs and batches."""

import time
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np

from .progress import EpochReport, Reporter, reporter_for_output

Batch: TypeAlias = tuple[Any, Any]
Data: TypeAlias = Iterable[Batch] | Callable[[int], Iterable[Batch]]


class Trainable(Protocol):
    """What the loop asks of a trainer."""

    @property
    def batch_size(self) -> int | None: ...

    def update(self, inputs: Any, targets: Any) -> jax.Array: ...

    def predict(self, *inputs: Any) -> Any: ...


def fit(
    trainer: Trainable,
    data: Data,
    epochs: int = 1,
    eval_data: Data | None = None,
    reporter: Reporter | None = None,
) -> list[EpochReport]:
    """Train for some epochs; the reports give each epoch's mean loss and its accuracy.

    `data` gives batches `(inputs, targets)`: something to iterate over once an epoch, or a function
    from the number of the epoch, counted from 0, to its batches. `eval_data` is the same for
    classification data to measure the accuracy on.
    """
    reporter = reporter or reporter_for_output()
    reports = []
    for epoch in range(epochs):
        started = time.perf_counter()
        batches = _batches(data, epoch)
        last_time = reports[-1].steps if reports else None
        steps = len(batches) if isinstance(batches, Sized) else last_time
        reporter.start(epoch + 1, epochs, steps)
        losses = [_step(trainer, batch, reporter) for batch in batches]
        if not losses:
            raise ValueError(
                f"epoch {epoch + 1} had no batches: give `data` as a list, a loader, or a function "
                "from the epoch to its batches; an iterator is used up after one epoch"
            )
        loss = float(np.mean(jax.device_get(losses)))
        seconds = time.perf_counter() - started
        found = None if eval_data is None else accuracy(trainer, _batches(eval_data, epoch))
        reports.append(EpochReport(epoch + 1, epochs, loss, found, len(losses), seconds))
        reporter.end(reports[-1])
    return reports


def accuracy(trainer: Trainable, batches: Iterable[Batch]) -> float:
    """The share of samples whose highest score is that of their class.

    Targets are class ids, or one-hot. A last batch that is too small for the model is filled up
    with zeros, which do not count.
    """
    right = total = 0
    for inputs, targets in batches:
        listed = inputs if isinstance(inputs, list | tuple) else (inputs,)
        classes = np.asarray(targets)
        scores = trainer.predict(*_filled(listed, trainer.batch_size))
        first = np.asarray(scores[0] if isinstance(scores, tuple) else scores)[: len(classes)]
        if classes.ndim == first.ndim:
            classes = classes.argmax(-1)
        right += int((first.argmax(-1) == classes).sum())
        total += classes.size
    if not total:
        raise ValueError("there is nothing to measure the accuracy on: `eval_data` has no batches")
    return right / total


def _batches(data: Data, epoch: int) -> Iterable[Batch]:
    return data(epoch) if callable(data) else data


def _step(trainer: Trainable, batch: Batch, reporter: Reporter) -> jax.Array:
    loss = trainer.update(*batch)
    reporter.step(loss)
    return loss


def _filled(inputs: Sequence[Any], size: int | None) -> list[Any]:
    """The inputs with zeros after their last sample, up to the batch size of the model."""
    if size is None or len(inputs[0]) >= size:
        return list(inputs)
    arrays = map(np.asarray, inputs)
    return [np.pad(x, [(0, size - len(x)), *[(0, 0)] * (x.ndim - 1)]) for x in arrays]
