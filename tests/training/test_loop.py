"""The loop over epochs: the steps it makes, how it measures a model."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_backbone
from small_models import BATCH, CLASSES, Told, batch, classifier, counting, trainer_of

from relaxjax import TensorType, Var
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.trainable.facts import Facts
from relaxjax.training import EarlyStopping, Trainer, accuracy, evaluate_with_loss, fit, loop
from relaxjax.training.batches.targets import LossWeights

DATA = [batch(seed) for seed in range(3)]


class Fixed:
    """A stand-in for a trainer of batches of 4, whose scores are its inputs."""

    batch_sizes: Any = ([4], [4])
    ignored_class = None
    nested = None
    pairs = staticmethod(iter)
    loss_weights = LossWeights()
    facts = Facts()
    layout = SimpleNamespace(inputs=[Var("x", TensorType((4, 4), "float32"))])

    def update(self, inputs: Any, targets: Any) -> Any:
        return np.float32(0)

    def predict(self, *inputs: Any) -> Any:
        assert len(inputs[0]) == 4
        return inputs[0]


FIXED: Any = Fixed()


def started() -> Trainer:
    trainer = classifier()
    trainer.xavier_uniform_init_params(seed=4)
    return trainer


def test_the_loop_makes_the_steps_that_update_makes() -> None:
    ours, by_hand = started(), started()
    reports = ours.fit(DATA, epochs=2, reporter=Told(), steps_per_call=1)
    losses = [[float(by_hand.update(*pair)) for pair in DATA] for _ in range(2)]
    assert [report.loss for report in reports] == pytest.approx([np.mean(e) for e in losses])
    np.testing.assert_array_equal(ours.export_params()["w1"], by_hand.export_params()["w1"])


@pytest.mark.parametrize(
    "options",
    [{}, {"steps_per_call": 2}, {"steps_per_call": 3}, {"prefetch": 2, "steps_per_call": 1}],
)
def test_calls_of_several_steps_and_prefetching_train_the_same(options: dict[str, Any]) -> None:
    plain, other = started(), started()
    expected, found = plain.fit(DATA, 2, reporter=Told(), steps_per_call=1), Told()
    other.fit(DATA, 2, reporter=found, **options)
    assert len(found.losses) == 6
    assert [report.loss for report in found.reports] == pytest.approx(
        [report.loss for report in expected], rel=1e-6
    )
    np.testing.assert_allclose(
        other.export_params()["w1"], plain.export_params()["w1"], rtol=1e-5, atol=1e-6
    )


def test_small_steps_share_calls_where_that_is_left_to_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = classifier()
    assert trainer.best_steps_per_call(DATA[0]) == 16
    monkeypatch.setattr("relaxjax.training.step._SMALL_STEP", 100.0)
    trainer._step._counts.clear()
    assert trainer.best_steps_per_call(DATA[0]) == 1
    trainer._step._counts.clear()


def test_calls_hold_no_more_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(array.nbytes for array in DATA[0])
    trainer = classifier()
    for most, count in ((5 * size, 5), (2 * size - 1, 1)):
        monkeypatch.setattr("relaxjax.training.step._MOST_BYTES", most)
        trainer._step._counts.clear()
        assert trainer.best_steps_per_call(DATA[0]) == count
    trainer._step._counts.clear()


def test_random_keys_and_batches_of_nothing_do_not_share_calls() -> None:
    trainer = classifier()
    step = trainer._step
    assert step.best_count((jax.random.key(0),), (DATA[0][1],)) == 1
    assert step.best_count((), ()) == 1


def test_what_a_step_computes_goes_by_the_size_of_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = counting()._step
    step._counts.clear()
    monkeypatch.setattr("relaxjax.training.step._SMALL_STEP", 200.0)
    few, many = (((np.ones((rows, 2), "float32"),),) * 2 for rows in (3, 300))
    assert (step.best_count(*few), step.best_count(*many)) == (16, 1)
    step._counts.clear()
    monkeypatch.setattr("relaxjax.training.step.function_cost", lambda *_: None)
    assert step.best_count(*few) == 1
    step._counts.clear()


def test_steps_with_convolutions_do_not_share_calls() -> None:
    body = "out = R.nn.conv2d(x, w)"
    backbone = parse_backbone(body, param_num=1, x=(2, 3, 5, 5), w=(4, 3, 3, 3))
    scores = TensorType((2, 4, 3, 3), "float32")
    trainer = trainer_of(backbone, MSELoss(), SGD(0.1), scores, scores)
    batch = np.zeros((2, 3, 5, 5), "float32"), np.zeros((2, 4, 3, 3), "float32")
    assert trainer.best_steps_per_call(batch) == 1


def test_two_trainings_of_one_seed_are_the_same_bit_for_bit() -> None:
    trainers = [started(), started()]
    for trainer in trainers:
        trainer.fit(DATA, 3, reporter=Told())
    one, other = (trainer.export_params() for trainer in trainers)
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "options", [{"prefetch": 2, "steps_per_call": 1}, {"steps_per_call": 2}, {}]
)
def test_a_loader_may_fill_the_same_memory_with_batch_after_batch(options: Any) -> None:
    """Prefetched batches are copies, and those that share a call too."""
    x, labels = (np.empty_like(array) for array in DATA[0])

    def refilled(epoch: int) -> Any:
        for inputs, targets in DATA:
            x[:], labels[:] = inputs, targets
            yield x, labels

    plain, other = started(), started()
    plain.fit(DATA, 1, reporter=Told(), steps_per_call=1)
    other.fit(refilled, 1, reporter=Told(), **options)
    np.testing.assert_allclose(
        other.export_params()["w1"], plain.export_params()["w1"], rtol=1e-5, atol=1e-6
    )


def test_metrics_are_chosen() -> None:
    (report,) = classifier().fit(DATA, 1, DATA, Told(), metrics=["perplexity"])
    assert report.metrics["perplexity"] > 1
    assert report.accuracy is None


def test_no_more_losses_are_left_on_the_device_than_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An epoch may have any number of steps; where losses are read changes nothing."""
    (expected,) = started().fit(DATA * 3, reporter=Told(), steps_per_call=1)
    monkeypatch.setattr(loop, "MOST_UNREAD", 2)
    asked: list[int] = []
    on_host = loop._on_host

    def counted(losses: Any) -> Any:
        asked.append(len(losses))
        return on_host(losses)

    monkeypatch.setattr(loop, "_on_host", counted)
    (report,) = started().fit(DATA * 3, reporter=Told(), steps_per_call=1)
    assert asked == [2, 2, 2, 2, 1]
    assert report.loss == expected.loss


@pytest.mark.parametrize(
    ("epochs", "error", "match"),
    [
        (1.5, TypeError, r"`epochs` must be an integer, but it is 1\.5"),
        (True, TypeError, "`epochs` must be an integer, but it is True"),
        (-1, ValueError, "`epochs` must be at least 0, but it is -1"),
        (
            DATA[0][1],
            TypeError,
            r"`epochs` must be an integer, but it is an array: `data` is batches",
        ),
    ],
)
def test_numbers_of_epochs_that_make_no_sense(epochs: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        fit(classifier(), DATA, epochs)


def test_the_loss_of_the_evaluation_data_is_that_of_all_full_batches() -> None:
    trainer = classifier()
    trainer.xavier_uniform_init_params(1)
    small = (DATA[2][0][:3], DATA[2][1][:3])
    found = evaluate_with_loss(trainer, [*DATA[:2], small], ["accuracy"])
    losses = [float(np.asarray(trainer.evaluate(*pair)[0])) for pair in DATA[:2]]
    assert found["eval_loss"] == pytest.approx(np.mean(losses))
    assert found["accuracy"] == accuracy(trainer, [*DATA[:2], small])
    assert "eval_loss" not in evaluate_with_loss(trainer, [small], ["accuracy"])


def test_the_loss_of_a_batch_of_any_size_counts_by_its_samples() -> None:
    trainer = counting()
    trainer.load_params({"w": np.array([1, 2], "float32")})
    batches = [(np.ones((n, 2), "float32"), np.zeros((n, 2), "float32")) for n in (1, 3)]
    found = evaluate_with_loss(trainer, batches, [])
    assert found == {"eval_loss": pytest.approx((5 * 1 + 15 * 3) / 4)}


def test_a_training_is_stopped_by_the_loss_of_the_evaluation_data() -> None:
    """With steps that are far too long, it grows."""
    trainer = classifier(SGD(100.0))
    trainer.xavier_uniform_init_params(0)
    stop = EarlyStopping("eval_loss", patience=2)
    reports = trainer.fit(DATA, 20, DATA[:1], Told(), callbacks=[stop])
    losses = [report.metrics["eval_loss"] for report in reports]
    assert len(reports) < 20
    assert min(losses) == losses[-3]


def test_no_evaluation_data_is_an_error() -> None:
    with pytest.raises(ValueError, match="`eval_data` has no batches"):
        fit(classifier(), DATA, 1, [], Told())


def test_accuracy_counts_class_ids_and_one_hot_targets() -> None:
    scores = np.eye(4, dtype="float32")
    ids = np.array([0, 1, 0, 0])
    assert accuracy(FIXED, [(scores, ids)]) == 0.5
    assert accuracy(FIXED, [(scores, np.eye(4)[ids])]) == 0.5


def test_accuracy_fills_up_a_small_last_batch_and_does_not_count_the_filling() -> None:
    scores = np.eye(4, dtype="float32")
    assert accuracy(FIXED, [(scores, np.arange(4)), (scores[1:], np.array([1, 2, 0]))]) == 6 / 7


def test_accuracy_of_a_real_model() -> None:
    trainer = classifier(zero_init_param_state=True)
    trainer.load_params({"b1": np.array([0, 0, 1], "float32")})
    x = batch(0)[0]
    assert accuracy(trainer, [(x, np.full(BATCH, 2)), (x[:2], np.full(2, CLASSES - 1))]) == 1
