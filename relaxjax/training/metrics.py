"""What a model is worth: metrics, measured on batches of evaluation data."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.registry import did_you_mean
from relaxjax.training.inputs import as_list

from .batches.targets import check_taken, counted_classes
from .inputs import check_any_samples
from .number_checks import is_count
from .trained_model import TrainedModel

Array: TypeAlias = np.ndarray[Any, Any]

EVAL_LOSS = "eval_loss"
_NO_BATCHES = "there is nothing to measure on: `eval_data` has no batches"
REPORTED = ("epoch", "loss", EVAL_LOSS, "steps", "seconds")


@dataclass(frozen=True)
class Metric:
    """The mean of a value over all samples: `values(predictions, targets)` gives those of a batch.

    A single number is taken for the mean of its batch, and counts for each of the samples in it.
    `finish` makes the metric of the mean, as perplexity is the exponential of a mean. One that is
    `of_classes` takes ids of classes for targets, and scores whose last axis is that of the
    classes; a class that the loss ignores, or a negative one, does not count.
    """

    name: str
    values: Callable[[Any, Any], Any]
    finish: Callable[[float], float] = float
    of_classes: bool = False


def accuracy_values(scores: Array, classes: Array) -> Array:
    """Whether the highest score is that of the target's class, for each sample."""
    right: Array = scores.argmax(-1) == classes
    return right


def top_k(k: int) -> Metric:
    """The share of samples whose class is among the `k` highest scores."""
    if not is_count(k, 1):
        raise ValueError(f"`k` of top_k must be an integer of at least 1, but it is {k!r}")

    def values(scores: Array, classes: Array) -> Array:
        places = np.argsort(-scores, axis=-1, kind="stable")[..., :k]
        found: Array = (places == classes[..., None]).any(-1)
        return found

    return Metric(f"top {k}", values, of_classes=True)


def log_likelihood_values(scores: Array, classes: Array) -> Array:
    """The negative log-likelihood of the targets' classes under the softmax of the scores."""
    wide = scores.astype("float64")
    shifted = wide - wide.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    picked: Array = -np.take_along_axis(log_p, classes[..., None], -1)[..., 0]
    return picked


def _perplexity(mean: float) -> float:
    return float(np.exp(mean))


METRICS = {
    "accuracy": Metric("accuracy", accuracy_values, of_classes=True),
    "perplexity": Metric("perplexity", log_likelihood_values, _perplexity, of_classes=True),
}

MetricLike: TypeAlias = Metric | str | Callable[[Any, Any], Any]


def metric(given: MetricLike) -> Metric:
    """A metric, by itself, by its name, or as a function of predictions and targets."""
    if isinstance(given, Metric):
        return given
    if isinstance(given, str):
        if given not in METRICS:
            raise ValueError(
                f"there is no metric `{given}`: by name there are {', '.join(METRICS)}, give "
                f"others as top_k(5) or as a function{did_you_mean(given, list(METRICS))}"
            )
        return METRICS[given]
    if not callable(given):
        raise TypeError(f"a metric is a Metric, a name or a function, but `{given!r}` was given")
    return Metric(getattr(given, "__name__", "metric"), given)


def metrics_of(given: Sequence[MetricLike], taken: Sequence[str] = ()) -> list[Metric]:
    """Metrics whose names tell them apart, from each other and from names that are taken."""
    found = list(map(metric, given))
    names = [*taken, *(each.name for each in found)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        other = "a number that is reported anyway" if twice in taken else "another one"
        raise ValueError(
            f"a metric is called `{twice}` as {other}: give it a name of its own by "
            'Metric("name", function)'
        )
    return found


def default_metrics(trainer: TrainedModel) -> list[MetricLike]:
    """What is reported unless the user says what.

    It is accuracy where the loss compares classes. Where the loss is one of JAX, it is the single
    numbers that it gives beside itself by name.
    """
    if trainer.nested is not None:
        found = [name for name in trainer.nested.numbers if name not in REPORTED]
        return [Metric(name, partial(_beside, name)) for name in found]
    return ["accuracy"] if trainer.scores_classes else []


def _beside(name: str, aux: Any, batch: Any) -> Any:
    return aux[name]


def evaluate(
    trainer: TrainedModel, batches: Iterable[Any], metrics: Sequence[MetricLike]
) -> dict[str, float]:
    """Metrics over batches, by name.

    Predictions are the first output of the model. They are compared with the first target, or with
    the first input where the loss takes no targets, such as that of an autoencoder. A last batch
    that is too small for the model is filled up with zeros, which do not count.

    Of a trainer from JAX, metrics are functions of what the loss gives beside itself and of the
    batch, each nested as the user has it.
    """
    if trainer.nested is not None:
        return _measured_beside(trainer, batches, metrics_of(metrics))[1]

    def predicted() -> Iterator[tuple[Array, Array]]:
        for (inputs, _), truth, share in _with_truth(trainer, batches):
            filled = _filled(inputs, trainer.batch_sizes[0], share)
            yield _compared(trainer.predict(*filled), truth, share), truth

    return _measured(predicted(), metrics_of(metrics), trainer.ignored_class)


def evaluate_with_loss(
    trainer: TrainedModel, batches: Iterable[Any], metrics: Sequence[MetricLike]
) -> dict[str, float]:
    """The loss as `eval_loss`, and metrics, over batches.

    The loss is the mean of the batches' by their numbers of targets that are not to be ignored, or
    by the weights of these; a batch that had to be filled up counts for the metrics alone. Of a
    trainer from JAX it is the mean over the batches.
    """
    if trainer.nested is not None:
        loss_of_all, found = _measured_beside(trainer, batches, metrics_of(metrics, [EVAL_LOSS]))
        return {EVAL_LOSS: loss_of_all, **found}
    total, weights = 0.0, 0.0

    def predicted() -> Iterator[tuple[Array, Array]]:
        nonlocal total, weights
        for parts, truth, share in _with_truth(trainer, batches):
            pairs = zip(parts, trainer.batch_sizes, strict=True)
            filled = (_filled(part, sizes, share) for part, sizes in pairs)
            loss, outputs = trainer.evaluate(*filled)
            predictions = _compared(outputs, truth, share)
            check_taken(trainer.facts.loss_takes, predictions)
            if loss is not None and share == 1:
                weight = trainer.loss_weights.of_batch(predictions, truth, parts[1])
                total, weights = total + (float(loss) * weight if weight else 0), weights + weight
            yield predictions, truth

    measured = _measured(predicted(), metrics_of(metrics, [EVAL_LOSS]), trainer.ignored_class)
    return {EVAL_LOSS: total / weights, **measured} if weights else measured


def _measured_beside(
    trainer: TrainedModel, batches: Iterable[Any], metrics: list[Metric]
) -> tuple[float, dict[str, float]]:
    """The mean loss, and metrics of what a loss from JAX gives beside itself, batch by batch."""
    for each in metrics:
        if each.of_classes:
            raise TypeError(
                f"the metric `{each.name}` compares scores with classes, and of a loss from JAX "
                "nobody knows which those are: let the loss give it beside itself by has_aux, or "
                "give a function of what is beside the loss and of the batch"
            )
    losses: list[float] = []
    values: list[list[Array]] = [[] for _ in metrics]
    for batch in batches:
        loss, aux = trainer.evaluate(batch)
        losses.append(float(np.asarray(loss)))
        for each, found in zip(metrics, values, strict=True):
            found.append(_numbers_of(each, (aux, batch)).astype("float64").ravel())
    if not losses:
        raise ValueError(_NO_BATCHES)
    means = [each.finish(np.concatenate(v).mean()) for each, v in zip(metrics, values, strict=True)]
    named = {each.name: float(mean) for each, mean in zip(metrics, means, strict=True)}
    return float(np.mean(losses)), named


def _measured(
    batches: Iterable[tuple[Array, Array]], metrics: list[Metric], ignored: int | None
) -> dict[str, float]:
    """Metrics of predictions and targets, batch by batch."""
    sums, sizes, count = [0.0] * len(metrics), [0] * len(metrics), 0
    for predictions, truth in batches:
        count += 1
        if metrics and len(predictions) != len(truth):
            raise ValueError(
                "there must be as many targets as predictions, but the model gives "
                f"{len(predictions)} for a batch of evaluation data that has {len(truth)} targets"
            )
        for index, each in enumerate(metrics):
            given = (predictions, truth)
            if each.of_classes:
                given = counted_classes(each.name, predictions, truth, ignored)
            values = _numbers_of(each, given)
            samples = 1 if values.ndim else len(given[0])  # a number for all of them is their mean
            sums[index] += float(values.sum(dtype="float64")) * samples
            sizes[index] += values.size * samples
    if not count:
        raise ValueError(_NO_BATCHES)
    return {
        each.name: float(each.finish(total / size if size else math.nan))
        for each, total, size in zip(metrics, sums, sizes, strict=True)
    }


def _numbers_of(each: Metric, given: tuple[Any, Any]) -> Array:
    found = each.values(*given)
    values = np.asarray(found)
    if values.dtype.kind not in "biufV":
        raise TypeError(
            f"the metric `{each.name}` must give a number for each sample, but it gave {found!r}"
        )
    return values


def accuracy(trainer: TrainedModel, batches: Iterable[Any]) -> float:
    """The share of samples whose highest score is that of their class.

    Targets are class ids, or one-hot.
    """
    return evaluate(trainer, batches, ["accuracy"])["accuracy"]


def _with_truth(
    trainer: TrainedModel, batches: Iterable[Any]
) -> Iterator[tuple[tuple[Sequence[Any], Sequence[Any]], Array, Fraction]]:
    """Batches as inputs and targets, what predictions are compared with, and how much there is.

    They are compared with the first target, or the first input if there is none.
    """
    for batch in trainer.pairs(batches):
        inputs, targets = map(as_list, batch)
        if len(inputs) == len(trainer.layout.inputs):  # else the model says what it takes
            check_any_samples(trainer.layout.inputs, inputs)
        truth = np.asarray(next(iter((*targets, *inputs))))
        yield (inputs, targets), truth, _share(trainer, inputs)


def _compared(result: Any, truth: Array, share: Fraction) -> Array:
    """The predictions, the first of what a model gives, for the samples that there are."""
    predictions = np.asarray(result[0] if isinstance(result, tuple) else result)
    for name, array in (("array of targets", truth), ("output of the model", predictions)):
        if not array.ndim:
            raise ValueError(
                f"what is measured must have a value for each sample, but the first {name} is a "
                f"single number, {array}"
            )
    return predictions[: int(len(predictions) * min(share, Fraction(1)))]


def _share(trainer: TrainedModel, inputs: Sequence[Any]) -> Fraction:
    """How much of a batch of the model there is; 1 where it takes any number of samples."""
    sizes = trainer.batch_sizes[0]
    if not sizes or not inputs or not sizes[0] or not np.ndim(inputs[0]):
        return Fraction(1)
    return Fraction(len(inputs[0]), sizes[0])


def _filled(arrays: Sequence[Any], sizes: list[int | None], share: Fraction) -> list[Any]:
    """The arrays with zeros after their last sample, up to the sizes that the model takes.

    What is as long as the model takes it, such as the weights of classes, stays as it is.
    """
    if share >= 1 or len(arrays) != len(sizes):  # of which the model tells
        return list(arrays)
    return [
        _padded(x, size) if size and len(x) == share * size else x
        for x, size in zip(arrays, sizes, strict=True)
    ]


def _padded(array: Any, size: int) -> Array:
    return np.pad(np.asarray(array), [(0, size - len(array)), *[(0, 0)] * (np.ndim(array) - 1)])
