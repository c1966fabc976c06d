"""What is measured on evaluation data, of models with several targets for each sample."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import chex
import numpy as np
import pytest
from parsing import parse_backbone
from small_models import CLASSES, Classifier, batch, classifier, trainer_of

from relaxjax import IRModule, TensorType, from_source
from relaxjax.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    KLDivLoss,
    MSELoss,
    NLLLoss,
    from_jax,
)
from relaxjax.lowering import ArgumentError
from relaxjax.optim import SGD
from relaxjax.trainable.facts import Facts
from relaxjax.training import Lines, Trainer, evaluate, evaluate_with_loss
from relaxjax.training.batches.targets import LossWeights

DATA = [batch(0)]
QUIET = Lines(lambda line: None)

SHIFTED = """
@R.function
def backbone(
    x: R.Tensor((8, 5), "float32"), shift: R.Tensor((5,), "float32"),
    w: R.Tensor((5, 3), "float32"),
):
    with R.dataflow():
        out = R.matmul(R.add(x, shift), w)
        R.output(out)
    return out
"""


def rows() -> Trainer:
    """A trainer of a model that takes 4 samples and gives three numbers for each in a row."""
    body = "out = R.reshape(R.multiply(x, w), R.shape([12]))"
    mod = parse_backbone(body, param_num=1, x=(4, 3), w=(3,))
    numbers = TensorType((12,), "float32")
    return trainer_of(mod, MSELoss(), SGD(0.1), numbers, numbers)


def squares(predictions: Any, targets: Any) -> Any:
    return (predictions - targets) ** 2


def test_a_sample_may_have_several_targets() -> None:
    """Those of a small last batch are filled up as its samples are."""
    whole = np.ones((4, 3), "float32"), np.full(12, 2, "float32")
    small = np.ones((3, 3), "float32"), np.full(9, 3, "float32")

    found = evaluate_with_loss(rows(), [whole, small], [squares])
    assert found == {"eval_loss": 4, "squares": pytest.approx((12 * 4 + 9 * 9) / 21)}


def test_only_samples_are_filled_up_in_a_small_batch() -> None:
    """Weights of classes, and a second input of which there is one for all samples, are no such."""
    shifted: Any = from_source(SHIFTED)
    mod: Any = IRModule({"backbone": shifted}, attrs={"param_num": 1, "state_num": 0})
    sizes = ((8, CLASSES), "float32"), ((8,), "int32"), ((CLASSES,), "float32")
    trainer = trainer_of(mod, CrossEntropyLoss(), SGD(0.1), *(TensorType(*size) for size in sizes))
    trainer.xavier_uniform_init_params(0)
    x, labels = DATA[0]
    shift, weights = np.ones(5, "float32"), np.array([1, 2, 3], "float32")
    whole = evaluate_with_loss(trainer, [([x, shift], [labels, weights])], ["accuracy"])
    parts = [([x[i : i + 5], shift], [labels[i : i + 5], weights]) for i in (0, 5)]
    found = evaluate_with_loss(trainer, parts, ["accuracy"])
    assert found == {"accuracy": whole["accuracy"]}
    assert evaluate(trainer, parts, ["accuracy"]) == found


SCORES, IDS = TensorType((8, CLASSES), "float32"), TensorType((8,), "int32")


def absolute(scores: Any, ids: Any) -> Any:
    return abs(scores[:, 0] - ids.astype(scores.dtype)).mean()


@pytest.mark.parametrize(
    ("loss", "targets", "is_of_classes"),
    [
        (CrossEntropyLoss(), IDS, True),
        (CrossEntropyLoss(), SCORES, True),
        (from_jax(absolute), IDS, True),
        (MSELoss(), SCORES, False),
        (BCEWithLogitsLoss(), TensorType(SCORES.dims, "int32"), False),
    ],
)
def test_accuracy_is_measured_by_default_where_targets_are_classes(
    loss: Any, targets: TensorType, is_of_classes: bool
) -> None:
    """Targets of a regression and several labels for each sample look as one-hot ones do."""
    assert trainer_of(Classifier, loss, SGD(0.1), SCORES, targets).scores_classes is is_of_classes


def test_accuracy_is_not_measured_where_there_is_nothing_to_compare() -> None:
    data = [(np.ones((4, 3), "float32"), np.ones(12, "float32"))]
    assert list(rows().fit(data, 1, data, QUIET)[0].metrics) == ["eval_loss"]
    assert list(classifier().fit(DATA, 1, DATA, QUIET)[0].metrics) == ["eval_loss", "accuracy"]
    with pytest.raises(ValueError, match="accuracy compares scores of several classes"):
        rows().fit(data, 1, data, QUIET, metrics=["accuracy"])


def test_the_loss_of_what_is_ignored_does_not_count() -> None:
    """The mean over no targets at all is NaN."""
    trainer, (x, labels) = classifier(), DATA[0]
    trainer.xavier_uniform_init_params(0)
    some, none = np.where(np.arange(len(labels)) < 3, labels, -100), np.full_like(labels, -100)
    losses: list[Any] = [trainer.evaluate(x, targets)[0] for targets in (some, labels)]
    found = evaluate_with_loss(trainer, [(x, some), (x, none), (x, labels)], [])
    assert found["eval_loss"] == pytest.approx((3 * losses[0] + 8 * losses[1]) / 11)


def test_a_model_without_inputs_is_measured() -> None:
    mod = parse_backbone("out = R.multiply(w, w)", param_num=1, w=(3,))
    numbers = TensorType((3,), "float32")
    trainer = trainer_of(mod, MSELoss(), SGD(0.1), numbers, numbers)
    found = trainer.fit([([], np.ones(3))], 1, [([], np.ones(3))], QUIET, metrics=[squares])
    assert found[0].metrics == {"eval_loss": 1, "squares": 1}


def weighed(loss: Any, *targets: TensorType) -> Trainer:
    trainer = trainer_of(Classifier, loss, SGD(0.1), SCORES, *targets)
    trainer.xavier_uniform_init_params(0)
    return trainer


def weighted_mean(trainer: Trainer, parts: Any, sizes: Any) -> Any:
    losses = [float(np.asarray(trainer.evaluate(*part)[0])) for part in parts]
    return pytest.approx(np.average(losses, weights=sizes), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("form", ["ids", "one-hot"])
def test_weights_of_classes_weigh_the_losses_of_batches(form: str, smoothing: float) -> None:
    """The mean of a batch is by them, and so is that of all."""
    weights = np.array([1, 2, 6], "float32")
    ids = [np.repeat([0, 1], 4), np.repeat([2, -100], 4), np.repeat([1, 2], [7, 1])]
    if form == "one-hot":
        ids = [np.eye(3, dtype="float32")[one] for one in (ids[0], ids[2])]
    sizes = [12, 24, 20] if form == "ids" else [12, 20]
    types = (IDS if form == "ids" else SCORES), TensorType((CLASSES,), "float32")
    trainer = weighed(CrossEntropyLoss(label_smoothing=smoothing), *types)
    parts = [(batch(place)[0], [one, weights]) for place, one in enumerate(ids)]
    found = evaluate_with_loss(trainer, parts, [])
    assert found["eval_loss"] == weighted_mean(trainer, parts, sizes)


def test_weights_of_samples_weigh_the_losses_of_batches() -> None:
    rng = np.random.default_rng(0)
    trainer = weighed(MSELoss(), SCORES, TensorType((8, 1), "float32"))
    weights = [rng.uniform(size=(8, 1)).astype("float32") * scale for scale in (1, 9, 0)]
    parts = [(batch(place)[0], [np.ones((8, 3)), one]) for place, one in enumerate(weights)]
    found = evaluate_with_loss(trainer, parts, [])
    sizes = [one.sum() for one in weights[:2]]
    assert found["eval_loss"] == weighted_mean(trainer, parts[:2], sizes)


def test_what_a_loss_of_jax_calls_weights_is_its_own_affair() -> None:
    def loss(scores: Any, weights: Any) -> Any:
        return (weights * scores**2).mean()

    trainer = weighed(from_jax(loss), SCORES)
    parts = [(DATA[0][0], np.full((8, CLASSES), scale, "float32")) for scale in (1, 3)]
    found = evaluate_with_loss(trainer, parts, [])
    assert found["eval_loss"] == weighted_mean(trainer, parts, [1, 1])


def test_a_loss_of_the_outputs_alone_is_measured() -> None:
    """Metrics compare the first output with the first input then."""
    mod: Any = from_source("""
@R.function
def backbone(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3,), "float32")):
    with R.dataflow():
        out = R.multiply(x, w)
        R.output(out)
    return out, x
""")
    mod = IRModule({"backbone": mod}, attrs={"param_num": 1, "state_num": 0})
    numbers = TensorType((4, 3), "float32")
    trainer = trainer_of(mod, from_jax(squared, 2), SGD(0.1), numbers, numbers)
    x, small = np.full((4, 3), 2, "float32"), np.ones((2, 3), "float32")
    found = trainer.fit([(x, [])], 1, [{"x": x}, {"x": small}], QUIET, metrics=[squares])
    weight = 0.8 / 3
    expected = {"eval_loss": 4 * (1 - weight) ** 2, "squares": 3 * (1 - weight) ** 2}
    assert found[0].metrics == pytest.approx(expected)


def squared(out: Any, x: Any) -> Any:
    return ((out - x) ** 2).mean()


def test_evaluation_data_must_last_for_all_epochs() -> None:
    match = "`eval_data` is a generator, which is used up after one epoch: give a list, a loader"
    with pytest.raises(ValueError, match=match):
        classifier().fit(DATA, 2, (pair for pair in DATA), QUIET)
    classifier().fit(DATA, 1, (pair for pair in DATA), QUIET)


class Loader(Iterator[Any]):
    """Goes over its batches once, or ever again."""

    def __init__(self, begins_anew: bool) -> None:
        self.begins_anew = begins_anew
        self.left = list(DATA)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.left:
            return self.left.pop()
        if self.begins_anew:
            self.left = list(DATA)
        raise StopIteration


def test_evaluation_data_that_is_used_up_is_found_before_more_is_trained() -> None:
    reports = classifier().fit(DATA, 3, Loader(begins_anew=True), QUIET)
    assert len({report.metrics["eval_loss"] for report in reports}) == 3
    begun: list[int] = []

    def data(epoch: int) -> Any:
        begun.append(epoch)
        return DATA

    class Finished(Lines):
        def end(self, report: Any) -> None:
            begun.append(-report.epoch)

    match = "`eval_data` is a Loader that has no batches any more: give a list, a loader, or"
    with pytest.raises(ValueError, match=match):
        classifier().fit(data, 3, Loader(begins_anew=False), Finished())
    assert begun == [0, -1, 1]
    with pytest.raises(ValueError, match="is a list_iterator that has no batches: give"):
        classifier().fit(DATA, 1, iter([]), QUIET)


@pytest.mark.parametrize(
    ("eval_data", "match"),
    [
        ([], "there is nothing to measure on: `eval_data` has no batches"),
        ([(np.ones((8, 4), "float32"), DATA[0][1])], "dimension 1 of `x` must be 5, found 4"),
        ([(DATA[0][0], np.ones((8, 2), "int32"))], r"`targets` must have 1 dimension, found 2"),
    ],
)
def test_what_is_wrong_with_listed_data_is_found_before_the_training(
    eval_data: Any, match: str
) -> None:
    def untouched(epoch: int) -> Any:
        raise AssertionError

    with pytest.raises((ValueError, ArgumentError), match=match):
        classifier().fit(untouched, 1, eval_data, QUIET)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ((np.ones(2), np.float32(3)), "but the first array of targets is a single number, 3.0"),
        ((np.float32(2), np.ones(2)), "but the first output of the model is a single number, 2.0"),
    ],
)
def test_what_has_no_samples_is_an_error(given: Any, match: str) -> None:
    class Echo:
        batch_sizes: Any = ([None], [None])
        ignored_class: int | None = None
        layout: Any = SimpleNamespace(inputs=())
        nested = None
        pairs = staticmethod(iter)
        loss_weights = LossWeights()
        facts = Facts()

        def predict(self, *inputs: Any) -> Any:
            return inputs[0]

        def evaluate(self, inputs: Any, targets: Any) -> Any:
            return 0.5, inputs[0]

    echo: Any = Echo()
    for measure in (evaluate, evaluate_with_loss):
        with pytest.raises(ValueError, match=match):
            measure(echo, [given], [])


@pytest.mark.parametrize(
    ("loss", "targets", "match"),
    [
        (BCELoss(), SCORES, "takes probabilities, 0 to 1, but the model gives .* by BCEWithLogits"),
        (NLLLoss(), IDS, "takes log-probabilities, at most 0, but .* by CrossEntropyLoss"),
        (KLDivLoss(), SCORES, "let it end with R.nn.log_softmax, or train"),
    ],
)
def test_a_loss_of_probabilities_is_not_for_scores(
    loss: Any, targets: TensorType, match: str
) -> None:
    """It clips them, or has no bound, and the training would go on in silence."""
    trainer = weighed(loss, targets)
    before = trainer.export_params()
    wanted = DATA[0][1] if targets is IDS else np.full((8, CLASSES), 0.5, "float32")
    data = [(DATA[0][0], wanted)]
    for given in (data, lambda epoch: iter(data)):
        with pytest.raises(ValueError, match=match):
            trainer.fit(given, 1, reporter=QUIET)
    chex.assert_trees_all_equal(trainer.export_params(), before)
    with pytest.raises(ValueError, match=match):
        evaluate_with_loss(trainer, data, [])
    if isinstance(loss, BCELoss):
        trainer.zero_init_params()  # which give a half for each
        with pytest.warns(UserWarning, match="matrices among the parameters are zero"):
            trainer.fit(data, 1, data, QUIET)


@pytest.mark.parametrize("measure", [evaluate, evaluate_with_loss])
def test_an_empty_batch_is_not_measured(measure: Any) -> None:
    """A model of batches of one size would have it filled up, and count none of them."""
    trainer, (x, y) = classifier(), DATA[0]
    with pytest.raises(ValueError, match=r"^input `x` holds no samples, its shape is \(0, \d+\):"):
        measure(trainer, [(x, y), (x[:0], y[:0])], ["accuracy"])


@pytest.mark.parametrize(("samples", "targets"), [(8, 6), (6, 8), (6, 5)])
def test_there_are_as_many_targets_as_samples(samples: int, targets: int) -> None:
    """Zeros that fill up a batch counted as samples, and samples without a target did not."""
    x, ids = DATA[0]
    match = f"model gives {samples} for a batch of evaluation data that has {targets} targets"
    with pytest.raises(ValueError, match=match):
        evaluate(classifier(), [(x[:samples], ids[:targets])], ["accuracy"])


def test_a_loss_may_compare_a_model_with_fewer_targets() -> None:
    """Where nothing else is measured."""

    def apart(out: Any, target: Any) -> Any:
        return ((out.sum() - target.sum()) ** 2).reshape(())

    trainer = trainer_of(Classifier, from_jax(apart), SGD(0.1), SCORES, TensorType((2,), "float32"))
    found = evaluate_with_loss(trainer, [(DATA[0][0], np.full(2, 3, "float32"))], [])
    assert found == {"eval_loss": 36}


def test_a_number_is_no_batch_to_measure_on() -> None:
    with pytest.raises(ArgumentError, match=r"`x` must have 2 dimensions, found 0"):
        evaluate_with_loss(classifier(), [(1.0, 2)], ["accuracy"])
