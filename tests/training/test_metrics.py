"""Metrics: what they measure, on what, and those of one's own."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from small_models import BATCH, batch, classifier

from relaxjax.training import Checkpoints, Metric, evaluate, top_k

SCORES = np.array([[3, 1, 0, 0], [2, 3, 1, 0], [0, 2, 1, 3], [0, 1, 2, 1]], "float32")
IDS = np.array([0, 0, 2, 3])


class Fixed:
    """A stand-in for a trainer of batches of 4, whose scores are its inputs."""

    batch_sizes: Any = ([4], [4])
    ignored_class: int | None = None
    layout: Any = SimpleNamespace(inputs=())
    nested = None
    pairs = staticmethod(iter)

    def predict(self, *inputs: Any) -> Any:
        assert len(inputs[0]) == 4
        return inputs[0], "another output"


FIXED: Any = Fixed()


def measured(metric: Any, *batches: Any) -> float:
    (value,) = evaluate(FIXED, batches or [(SCORES, IDS)], [metric]).values()
    return value


def test_accuracy() -> None:
    assert measured("accuracy") == 0.25


@pytest.mark.parametrize(("k", "share"), [(1, 0.25), (2, 0.5), (3, 1.0), (4, 1.0)])
def test_the_class_among_the_highest_scores(k: int, share: float) -> None:
    """Of equal scores the first counts as the higher one, as for the accuracy."""
    assert measured(top_k(k)) == share
    assert top_k(k).name == f"top {k}"


def test_perplexity_of_even_scores_is_the_number_of_classes() -> None:
    even = np.full((4, 4), 1e5, "float32")
    assert measured("perplexity", (even, IDS)) == pytest.approx(4)


def test_perplexity() -> None:
    p = np.exp(SCORES) / np.exp(SCORES).sum(-1, keepdims=True)
    expected = np.exp(-np.log(p[np.arange(4), IDS]).mean())
    assert measured("perplexity") == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_many_numbers_in_half_precision_are_added_up(dtype: str) -> None:
    ones = np.ones((4, 20000), ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    assert measured(Metric("ones", lambda predictions, targets: predictions), (ones, IDS)) == 1


def test_targets_may_be_one_hot() -> None:
    one_hot = np.eye(4, dtype="float32")[IDS]
    for metric in ("accuracy", "perplexity", top_k(2)):
        assert measured(metric, (SCORES, one_hot)) == measured(metric)


def test_targets_of_a_class_to_ignore_do_not_count() -> None:
    class Ignoring(Fixed):
        ignored_class = 0

    ignoring: Any = Ignoring()
    for metric in ("accuracy", "perplexity", top_k(2)):
        without = measured(metric, (SCORES, np.array([-100, -1, 2, 3])))
        assert without == measured(metric, (SCORES[2:], IDS[2:]))
        assert [*evaluate(ignoring, [(SCORES, IDS)], [metric]).values()] == [without]
        assert np.isnan(measured(metric, (SCORES, IDS - 9)))


def test_classes_may_lie_along_the_second_axis() -> None:
    """As the scores of pixels do."""
    pixels = np.stack([SCORES[:, :3]] * 4, axis=-1)
    truth = np.stack([[0, 1, 2, 2]] * 4, axis=-1)
    one_hot = np.moveaxis(np.eye(3)[truth], -1, 1)
    for metric in ("accuracy", "perplexity", top_k(2)):
        expected = measured(metric, (SCORES[:, :3], truth[:, 0]))
        assert measured(metric, (pixels, truth)) == pytest.approx(expected)
        assert measured(metric, (pixels, one_hot)) == pytest.approx(expected)
        assert measured(metric, (np.moveaxis(pixels, 1, 2), truth)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "targets"),
    [((4,), (4,)), ((4, 1), (4, 1)), ((4, 1), (4,)), ((4, 3), (4, 1)), ((4, 3, 3), (4, 3))],
)
def test_what_cannot_be_classes_is_an_error(scores: Any, targets: Any) -> None:
    match = f"{re.escape(str(scores))}, and the targets are of shape {re.escape(str(targets))}: gi"
    with pytest.raises(ValueError, match=f"^accuracy compares scores of several .*{match}"):
        measured("accuracy", (np.zeros(scores, "float32"), np.zeros(targets, "float32")))


def test_a_class_that_has_no_score_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"perplexity is of 4 classes, 0 to 3, .* targets hold 7"):
        measured("perplexity", (SCORES, np.array([0, 1, 2, 7])))


def test_batches_weigh_by_their_samples_and_filling_does_not_count() -> None:
    assert measured("accuracy", (SCORES, IDS), (SCORES[:1], IDS[:1])) == pytest.approx(2 / 5)


def test_a_function_of_ones_own() -> None:
    def distance(predictions: Any, targets: Any) -> Any:
        return np.abs(predictions - targets)

    found = evaluate(FIXED, [(SCORES, SCORES + 2)], [distance])
    assert found == {"distance": 2.0}
    root = Metric("rmse", lambda p, t: (p - t) ** 2, np.sqrt)
    assert measured(root, (SCORES, SCORES + 2)) == 2.0


def test_several_at_once_and_of_a_real_model() -> None:
    x, labels = batch(0)
    zeros = classifier(zero_init_param_state=True)  # of equal scores, the first is the highest
    found = evaluate(zeros, [(x, labels), ([x[:3]], [labels[:3]])], ["accuracy", top_k(3)])
    assert found["accuracy"] == (np.sum(labels == 0) + np.sum(labels[:3] == 0)) / (BATCH + 3)
    assert found["top 3"] == 1


def test_an_unknown_metric_is_an_error() -> None:
    match = (
        r"no metric `acuracy`: by name there are accuracy, perplexity, give others as top_k.*; did"
    )
    with pytest.raises(ValueError, match=match):
        measured("acuracy")


def test_a_metric_must_be_something_to_call() -> None:
    with pytest.raises(TypeError, match="a metric is a Metric, a name or a function, but `3` was"):
        measured(3)


@pytest.mark.parametrize("given", [None, "a", {"a": 1}])
def test_a_metric_gives_numbers(given: Any) -> None:
    match = f"the metric `odd` must give a number for each sample, but it gave {given!r}"
    with pytest.raises(TypeError, match=match):
        measured(Metric("odd", lambda predictions, targets: given))


def test_metrics_must_have_names_of_their_own() -> None:
    """Else one would be reported in place of the other."""
    match = "a metric is called `<lambda>` as another one: give it a name of its own by Metric"
    with pytest.raises(ValueError, match=match):
        evaluate(FIXED, [(SCORES, IDS)], [lambda p, t: p, lambda p, t: -p])
    trainer, data = classifier(), [batch(0)]
    for name in ("loss", "eval_loss", "epoch"):
        match = f"a metric is called `{name}` as a number that is reported anyway: give it a name"
        with pytest.raises(ValueError, match=match):
            trainer.fit(data, 1, data, metrics=[Metric(name, lambda p, t: p)])


def test_a_metric_is_a_number_of_python_that_a_checkpoint_can_hold(tmp_path: Path) -> None:
    def halved(mean: float) -> Any:
        return np.float32(mean / 2)

    half = Metric("half", lambda predictions, targets: targets == 0, halved)
    run = Checkpoints(tmp_path)
    (report,) = classifier().fit([batch(0)], 1, [batch(0)], metrics=[half], checkpoints=run)
    assert type(report.metrics["half"]) is float


@pytest.mark.parametrize("k", [0, 2.5, "a"])
def test_k_is_a_number_of_classes(k: Any) -> None:
    with pytest.raises(ValueError, match=f"`k` of top_k must be an integer .* it is {k!r}"):
        top_k(k)


def test_a_number_for_a_batch_counts_for_each_of_its_samples() -> None:
    """As functions give it that take the mean themselves: the last batch may be smaller."""

    def mean_right(scores: Any, ids: Any) -> Any:
        return (scores.argmax(-1) == ids).mean()

    batches = [(SCORES, IDS), (SCORES[:1], IDS[:1])]
    assert measured(mean_right, *batches) == pytest.approx(measured("accuracy", *batches))
