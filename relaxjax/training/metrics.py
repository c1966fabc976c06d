"""What a model is worth: metrics, measured on batches of evaluation data."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from relaxjax.ir.registry import did_you_mean

Array: TypeAlias = np.ndarray[Any, Any]
Batch: TypeAlias = tuple[Any, Any]

EVAL_LOSS = "eval_loss"


class Predictor(Protocol):
    """What measuring asks of a trainer."""

    @property
    def batch_size(self) -> int | None: ...

    def predict(self, *inputs: Any) -> Any: ...


class Evaluator(Predictor, Protocol):
    """What measuring the loss asks of a trainer too."""

    def evaluate(self, inputs: Any, targets: Any) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class Metric:
    """The mean of a value over all samples: `values(predictions, targets)` gives those of a batch.

    `finish` makes the metric of the mean, as perplexity is the exponential of a mean.
    """

    name: str
    values: Callable[[Any, Any], Any]
    finish: Callable[[float], float] = float


def accuracy_values(scores: Array, targets: Array) -> Array:
    """Whether the highest score is that of the target's class, for each sample."""
    right: Array = scores.argmax(-1) == _classes(scores, targets)
    return right


def top_k(k: int) -> Metric:
    """The share of samples whose class is among the `k` highest scores."""

    def values(scores: Array, targets: Array) -> Array:
        places = np.argsort(-scores, axis=-1, kind="stable")[..., :k]
        found: Array = (places == _classes(scores, targets)[..., None]).any(-1)
        return found

    return Metric(f"top {k}", values)


def log_likelihood_values(scores: Array, targets: Array) -> Array:
    """The negative log-likelihood of the targets' classes under the softmax of the scores."""
    wide = scores.astype("float64")
    shifted = wide - wide.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    places = _classes(scores, targets)[..., None]
    picked: Array = -np.take_along_axis(log_p, places, -1)[..., 0]
    return picked


METRICS = {
    "accuracy": Metric("accuracy", accuracy_values),
    "perplexity": Metric("perplexity", log_likelihood_values, lambda mean: float(np.exp(mean))),
}

MetricLike: TypeAlias = Metric | str | Callable[[Any, Any], Any]


def metric(given: MetricLike) -> Metric:
    """A metric, by itself, by its name, or as a function of predictions and targets."""
    if isinstance(given, Metric):
        return given
    if isinstance(given, str):
        if given not in METRICS:
            raise ValueError(
                f"there is no metric `{given}`{did_you_mean(given, list(METRICS))}; by name there "
                f"are {', '.join(METRICS)}: give others as top_k(5) or as a function"
            )
        return METRICS[given]
    if not callable(given):
        raise TypeError(f"a metric is a Metric, a name or a function, but `{given!r}` was given")
    return Metric(getattr(given, "__name__", "metric"), given)


def evaluate(
    trainer: Predictor, batches: Iterable[Batch], metrics: Sequence[MetricLike]
) -> dict[str, float]:
    """Metrics over batches, by name.

    Predictions are the first output of the model. A last batch that is too small for the model is
    filled up with zeros, which do not count.
    """

    def predicted() -> Iterator[tuple[Array, Array]]:
        for inputs, targets in batches:
            filled = _filled(_listed(inputs), trainer.batch_size)
            truth = np.asarray(_listed(targets)[0])
            yield _first(trainer.predict(*filled))[: len(truth)], truth

    return _measured(predicted(), list(map(metric, metrics)))


def evaluate_with_loss(
    trainer: Evaluator, batches: Iterable[Batch], metrics: Sequence[MetricLike]
) -> dict[str, float]:
    """The loss as `eval_loss`, and metrics, over batches.

    The loss is the mean of the batches' by their numbers of samples; a batch that had to be filled
    up counts for the metrics alone.
    """
    total, samples = 0.0, 0

    def predicted() -> Iterator[tuple[Array, Array]]:
        nonlocal total, samples
        for inputs, targets in batches:
            truth = np.asarray(_listed(targets)[0])
            given = [_filled(_listed(part), trainer.batch_size) for part in (inputs, targets)]
            loss, outputs = trainer.evaluate(*given)
            if loss is not None and trainer.batch_size in (None, len(truth)):
                total, samples = total + float(loss) * len(truth), samples + len(truth)
            yield _first(outputs)[: len(truth)], truth

    found = _measured(predicted(), list(map(metric, metrics)))
    return {EVAL_LOSS: total / samples, **found} if samples else found


def _measured(batches: Iterable[tuple[Array, Array]], metrics: list[Metric]) -> dict[str, float]:
    """Metrics of predictions and targets, batch by batch."""
    sums, sizes, count = [0.0] * len(metrics), [0] * len(metrics), 0
    for predictions, truth in batches:
        count += 1
        for index, each in enumerate(metrics):
            values = np.asarray(each.values(predictions, truth))
            sums[index] += float(values.sum())
            sizes[index] += values.size
    if not count:
        raise ValueError("there is nothing to measure on: `eval_data` has no batches")
    return {
        each.name: each.finish(total / max(1, size))
        for each, total, size in zip(metrics, sums, sizes, strict=True)
    }


def accuracy(trainer: Predictor, batches: Iterable[Batch]) -> float:
    """The share of samples whose highest score is that of their class.

    Targets are class ids, or one-hot.
    """
    return evaluate(trainer, batches, ["accuracy"])["accuracy"]


def _listed(part: Any) -> Sequence[Any]:
    return part if isinstance(part, list | tuple) else (part,)


def _first(result: Any) -> Array:
    return np.asarray(result[0] if isinstance(result, tuple) else result)


def _classes(scores: Array, targets: Array) -> Array:
    """The classes of class ids, or of one-hot vectors in the shape of the scores."""
    classes: Array = targets.argmax(-1) if targets.ndim == scores.ndim else targets.astype("int64")
    return classes


def _filled(inputs: Sequence[Any], size: int | None) -> list[Any]:
    """The inputs with zeros after their last sample, up to the batch size of the model."""
    if size is None or len(inputs[0]) >= size:
        return list(inputs)
    arrays = map(np.asarray, inputs)
    return [np.pad(x, [(0, size - len(x)), *[(0, 0)] * (x.ndim - 1)]) for x in arrays]
