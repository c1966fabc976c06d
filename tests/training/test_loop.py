"""The loop over epochs: what it trains on, what it reports, how it measures accuracy."""

import sys
from itertools import islice
from typing import Any

import chex
import jax
import numpy as np
import pytest
from small_models import BATCH, CLASSES, batch, classifier, counting

from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.losses import MSELoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD
from relaxjax.passes import SetupTrainer
from relaxjax.script import from_source
from relaxjax.training import (
    EarlyStopping,
    EpochReport,
    Lines,
    Trainer,
    accuracy,
    evaluate_with_loss,
    fit,
    loop,
)
from relaxjax.training.loss_weights import LossWeights
from relaxjax.training.progress import Bars, reporter_for_output

DATA = [batch(seed) for seed in range(3)]


class Told:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int, int | None]] = []
        self.losses: list[float] = []
        self.reports: list[EpochReport] = []

    def start(self, epoch: int, epochs: int, steps: int | None) -> None:
        self.started.append((epoch, epochs, steps))

    def step(self, loss: Any) -> None:
        self.losses.append(float(loss))

    def end(self, report: EpochReport) -> None:
        self.reports.append(report)


class Fixed:
    """A stand-in for a trainer of batches of 4, whose scores are its inputs."""

    batch_sizes: Any = ([4], [4])
    ignored_class = None
    loss_weights = LossWeights()
    mod = IRModule({})

    def update(self, inputs: Any, targets: Any) -> Any:
        return np.float32(0)

    def predict(self, *inputs: Any) -> Any:
        assert len(inputs[0]) == 4
        return inputs[0]


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
    step, state = trainer._step, trainer._state
    assert step.best_count(state, (jax.random.key(0),), (DATA[0][1],)) == 1
    assert step.best_count(state, (), ()) == 1


def test_steps_with_convolutions_do_not_share_calls() -> None:
    backbone: Any = from_source("""
@I.ir_module
class Model:
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function
    def backbone(x: R.Tensor((2, 3, 5, 5), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            out = R.nn.conv2d(x, w)
            R.output(out)
        return out
""")
    scores = TensorType((2, 4, 3, 3), "float32")
    mod = SetupTrainer(MSELoss(), SGD(0.1), [scores, scores])(backbone)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
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


def test_the_reporter_is_told_everything() -> None:
    told = Told()
    reports = classifier().fit(DATA, 2, DATA, told)
    assert told.started == [(1, 2, 3), (2, 2, 3)]
    assert len(told.losses) == 6
    assert told.reports == reports
    assert [(r.epoch, r.epochs, r.steps) for r in reports] == [(1, 2, 3), (2, 2, 3)]
    assert all(0 <= (r.accuracy or 0) <= 1 for r in reports)


def test_data_may_be_a_function_of_the_epoch() -> None:
    asked = []

    def data(epoch: int) -> Any:
        asked.append(epoch)
        return iter(DATA[: epoch + 1])

    reports = classifier().fit(data, 3, reporter=Told())
    assert asked == [0, 1, 2]
    assert [report.steps for report in reports] == [1, 2, 3]
    assert reports[0].accuracy is None


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


def test_the_reporter_expects_as_many_steps_as_last_time_where_nobody_knows() -> None:
    told = Told()
    classifier().fit(lambda epoch: iter(DATA), 2, reporter=told)
    assert told.started == [(1, 2, None), (2, 2, 3)]


def test_a_part_of_a_batch_may_be_a_mapping_by_name() -> None:
    by_name, in_pairs = classifier(), classifier()
    x, y = batch(0)
    by_name.fit([({"x": x}, y), (x, {"targets": y})], reporter=Told())
    in_pairs.fit([(x, y)] * 2, reporter=Told())
    chex.assert_trees_all_equal(by_name.export_params(), in_pairs.export_params())
    with pytest.raises(ValueError, match="a batch must have `x`, but it has `images`: rename"):
        by_name.fit([({"images": x}, y)], reporter=Told())


def test_batches_may_be_mappings_by_name() -> None:
    """As the rows of many a library's data sets are."""
    plain, other = classifier(), classifier()
    named = [{"targets": labels, "x": x, "id": np.arange(8)} for x, labels in DATA]
    expected = plain.fit(DATA, 1, DATA, Told())
    found = other.fit(named, 1, named, Told())
    assert found[0].loss == expected[0].loss
    assert found[0].metrics == expected[0].metrics


@pytest.mark.parametrize(
    ("batch", "error", "match"),
    [
        ({"x": 0, "label": 1}, ValueError, "must have `targets`, but it has `x`, `label`: rename"),
        (
            (1, 2, 3),
            TypeError,
            r"a pair \(inputs, targets\), or a mapping .* a tuple of 3 was given",
        ),
        (np.zeros(2), TypeError, "but a ndarray was given; relaxjax.datasets.batches cuts"),
        (
            (np.ma.masked_array(np.zeros((8, 4)), True), np.zeros(8)),
            TypeError,
            "an array of a batch is a masked array, whose mask would be lost",
        ),
    ],
)
def test_other_batches_are_errors(batch: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        classifier().fit([batch], 1, reporter=Told())


@pytest.mark.parametrize("options", [{"steps_per_call": 1}, {"steps_per_call": 2}, {"prefetch": 1}])
def test_what_a_mask_hides_is_not_trained_on(options: Any) -> None:
    x, labels = DATA[0]
    masked = np.ma.masked_array(labels, labels > 0)
    with pytest.raises(TypeError, match="is a masked array"):
        classifier().fit([(x, masked)], reporter=Told(), **options)


def test_a_loader_of_a_stream_has_no_length_to_tell() -> None:
    class Stream:
        """As torch's DataLoader over an IterableDataset."""

        def __iter__(self) -> Any:
            return iter(DATA)

        def __len__(self) -> int:
            raise TypeError("object of type 'Stream' has no len()")

    told = Told()
    classifier().fit(Stream(), epochs=2, reporter=told)
    assert told.started == [(1, 2, None), (2, 2, 3)]


def test_arrays_by_name_are_no_batches() -> None:
    match = "data is batches, but a mapping of `x`, `targets` was given: relaxjax.datasets.batches"
    with pytest.raises(TypeError, match=match):
        classifier().fit({"x": DATA[0][0], "targets": DATA[0][1]}, reporter=Told())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data", [(pair for pair in DATA), map(tuple, DATA), iter(DATA), islice(DATA, 2)]
)
def test_data_for_one_epoch_only_is_an_error_before_several(data: Any) -> None:
    match = f"`data` is a {type(data).__name__}, which is used up after one epoch: give a list"
    with pytest.raises(ValueError, match=match):
        classifier().fit(data, epochs=2, reporter=Told())
    classifier().fit(data, epochs=1, reporter=Told())


class Loader:
    """An iterator over batches; with `begins_anew`, over the same ones in each epoch."""

    def __init__(self, begins_anew: bool) -> None:
        self.begins_anew = begins_anew
        self.rest = iter(DATA)

    def __iter__(self) -> "Loader":
        if self.begins_anew:
            self.rest = iter(DATA)
        return self

    def __next__(self) -> Any:
        return next(self.rest)


def test_a_spent_iterator_is_an_error() -> None:
    """What is written in Python may be a loader that begins anew."""
    classifier().fit(Loader(True), epochs=2, reporter=Told())
    with pytest.raises(ValueError, match=r"epoch 2 had no batches: give `data` as a list"):
        classifier().fit(Loader(False), epochs=2, reporter=Told())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"steps_per_call": 0}, r'`steps_per_call` must be at least 1 or "auto", but it is 0'),
        ({"steps_per_call": "all"}, r"`steps_per_call` must be .* but it is 'all'"),
        ({"steps_per_call": None}, r"`steps_per_call` must be .* but it is None"),
        ({"steps_per_call": 2.5}, r"`steps_per_call` must be .* but it is 2.5"),
        ({"steps_per_call": True}, r"`steps_per_call` must be .* but it is True"),
        ({"prefetch": -1}, "`prefetch` must be at least 0, but it is -1"),
        ({"prefetch": 1.5}, r"`prefetch` must be at least 0, but it is 1\.5"),
        ({"resume": True}, r"resume=True needs to know from where: give `checkpoints` too"),
    ],
)
def test_options_that_make_no_sense_are_errors(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        fit(classifier(), DATA, **options)


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


def test_data_that_cannot_be_iterated_over() -> None:
    none: Any = None
    three: Any = 3
    with pytest.raises(TypeError, match="a function from the epoch to that, but None was given"):
        fit(classifier(), none)
    with pytest.raises(TypeError, match="a function from the epoch to that, but it gave None"):
        fit(classifier(), lambda epoch: none)
    with pytest.raises(TypeError, match=r"data is something to iterate over, .* but 3 was given"):
        fit(classifier(), DATA, 1, three, Told())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"checkpoints": "run"},
            r"`checkpoints` must be as Checkpoints\(\"run\"\), but it is 'run'",
        ),
        ({"metrics": "accuracy"}, "`metrics` must be a list, but it is 'accuracy'"),
        ({"callbacks": EarlyStopping()}, r"such as \[EarlyStopping\(\)\], but <.*> was given"),
        (
            {"callbacks": [EarlyStopping]},
            r"a list of callbacks, .* but <class .*Stopping'> was given",
        ),
    ],
)
def test_options_of_another_kind_are_errors(options: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        fit(classifier(), DATA, 1, reporter=Told(), **options)


def test_an_unknown_option_is_an_error() -> None:
    options: Any = {"prefech": 1}
    with pytest.raises(TypeError, match=r"`fit` has no option `prefech`.*`prefetch`.*it has metri"):
        classifier().fit(DATA, **options)


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
    assert accuracy(Fixed(), [(scores, ids)]) == 0.5
    assert accuracy(Fixed(), [(scores, np.eye(4)[ids])]) == 0.5


def test_accuracy_fills_up_a_small_last_batch_and_does_not_count_the_filling() -> None:
    scores = np.eye(4, dtype="float32")
    assert accuracy(Fixed(), [(scores, np.arange(4)), (scores[1:], np.array([1, 2, 0]))]) == 6 / 7


def test_accuracy_of_a_real_model() -> None:
    trainer = classifier()
    trainer.load_params({"b1": np.array([0, 0, 1], "float32")})
    x = batch(0)[0]
    assert accuracy(trainer, [(x, np.full(BATCH, 2)), (x[:2], np.full(2, CLASSES - 1))]) == 1


def test_a_report_is_one_line() -> None:
    report = EpochReport(3, 15, 0.12345, {"accuracy": 0.9718, "perplexity": 1.5}, 22, 0.1)
    assert str(report) == (
        "epoch  3/15  loss 0.1235  accuracy  97.18%  perplexity 1.5000  22 steps, 220 steps/s"
    )
    assert str(EpochReport(1, 2, 1.0, {}, 5, 5.0)) == "epoch 1/2  loss 1.0000  5 steps, 1 steps/s"


@pytest.mark.parametrize("reporter", [3, print, Lines])
def test_a_reporter_that_is_none(reporter: Any) -> None:
    match = r"`reporter` must have the methods start, step and end, as Lines\(\) has them, but"
    with pytest.raises(TypeError, match=match):
        classifier().fit(DATA, reporter=reporter)


def test_plain_lines_where_the_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    reports = classifier().fit(DATA, 2)
    assert capsys.readouterr().out.splitlines() == [str(report) for report in reports]


def test_bars_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    reporter = reporter_for_output()
    assert isinstance(reporter, Bars)
    reports = classifier().fit(DATA * 10, 2, DATA, reporter=reporter)
    out, err = capsys.readouterr()
    assert str(reports[0]) in out
    assert "epoch 1/2" in err
    assert "loss=" in err
    assert f"eval_loss={reports[0].metrics['eval_loss']:.4f}" in err


def test_lines_on_a_terminal_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(reporter_for_output(), Lines)
