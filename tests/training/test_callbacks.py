"""Those who follow a training: what they are told, when they end it, what they write."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import batch, classifier

from relaxjax.training import Callback, Checkpoints, EarlyStopping, EpochReport, JsonLines, Lines
from relaxjax.training.callbacks import Monitor

DATA = [batch(seed) for seed in range(3)]
QUIET = Lines(lambda line: None)


def reports(*accuracies: float, loss: float = 1.0) -> list[EpochReport]:
    return [EpochReport(i + 1, 9, loss, {"accuracy": a}, 3, 0.1) for i, a in enumerate(accuracies)]


class Follower(Callback):
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.epochs: list[int] = []

    def step(self, step: int, loss: Any) -> None:
        self.steps.append(step)
        self.losses.append(float(loss))

    def epoch(self, reports: Sequence[EpochReport]) -> None:
        self.epochs.append(reports[-1].epoch)


@pytest.mark.parametrize("steps_per_call", [1, 2])
def test_callbacks_are_told_of_steps_and_epochs(steps_per_call: int) -> None:
    told, by_hand = Follower(), classifier()
    classifier().fit(DATA, 2, None, QUIET, callbacks=[told], steps_per_call=steps_per_call)
    assert told.steps == [1, 2, 3, 4, 5, 6]
    assert told.epochs == [1, 2]
    assert told.losses == pytest.approx([float(by_hand.update(*pair)) for pair in DATA * 2])


@pytest.mark.parametrize("looks_at_loss_only", [False, True])
def test_a_callback_finds_the_trainer_as_the_step_left_it(looks_at_loss_only: bool) -> None:
    """Unless it says that it looks at the loss alone: then calls make several steps."""
    trainer, by_hand = classifier(), classifier()
    found: list[Any] = []

    class Looking(Callback):
        def step(self, step: int, loss: Any) -> None:
            found.append(np.asarray(trainer.export_params()["b1"]))

    Looking.looks_at_loss_only = looks_at_loss_only
    trainer.fit(DATA, 1, None, QUIET, callbacks=[Looking()])
    expected = []
    for pair in DATA:
        by_hand.update(*pair)
        expected.append(np.asarray(by_hand.export_params()["b1"]))
    seen = [expected[-1]] * len(DATA) if looks_at_loss_only else expected
    np.testing.assert_allclose(found, seen, rtol=1e-5, atol=1e-6)
    assert not np.allclose(expected[0], expected[-1], rtol=1e-5, atol=1e-6)


def test_callbacks_are_told_of_the_end_even_if_it_is_an_error() -> None:
    class Closing(Callback):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    told = Closing()
    classifier().fit(DATA, 1, reporter=QUIET, callbacks=[told])
    with pytest.raises(ValueError, match="epoch 1 had no batches"):
        classifier().fit([], 1, reporter=QUIET, callbacks=[told])
    assert told.closed == 2


def test_all_callbacks_are_told_of_the_end_in_their_order() -> None:
    told = []

    class Failing(Callback):
        def close(self) -> None:
            told.append(self)
            raise OSError("the disk is full")

    callbacks = [Failing(), Failing()]
    with pytest.raises(OSError, match="the disk is full"):
        classifier().fit(DATA, 1, reporter=QUIET, callbacks=callbacks)
    assert told == callbacks


def test_a_callback_may_end_the_training() -> None:
    class Two(Callback):
        def stops(self, reports: Sequence[EpochReport]) -> bool:
            return len(reports) == 2

    assert len(classifier().fit(DATA, 9, reporter=QUIET, callbacks=[Callback(), Two()])) == 2


def test_a_training_stops_early_once_it_gets_no_better() -> None:
    """With a learning rate of zero it never does."""
    from relaxjax.optim import SGD

    found = classifier(SGD(0.0)).fit(
        DATA, 9, DATA, QUIET, callbacks=[EarlyStopping("accuracy", patience=2)]
    )
    assert len(found) == 3


@pytest.mark.parametrize(
    ("accuracies", "stops"),
    [
        ([0.5], False),
        ([0.5, 0.4], False),
        ([0.5, 0.4, 0.5], True),
        ([0.5, 0.4, 0.51], False),
        ([0.5, 0.6, 0.55, 0.58], True),
    ],
)
def test_patience(accuracies: list[float], stops: bool) -> None:
    assert EarlyStopping(patience=2).stops(reports(*accuracies)) == stops


def test_the_least_gain_that_counts() -> None:
    slow = reports(0.5, 0.51, 0.52)
    assert not EarlyStopping(patience=2).stops(slow)
    assert EarlyStopping(patience=2, least_gain=0.05).stops(slow)


def test_what_is_good() -> None:
    low, high = reports(0.1, loss=0.5)[0], reports(0.9, loss=2.0)[0]
    assert Monitor("accuracy").best([low, high]) == 1
    assert Monitor("accuracy", "lowest").best([high, low]) == 1
    assert Monitor("loss").best([high, low]) == 1
    assert Monitor("loss", "highest").best([low, high]) == 1


def test_any_number_beats_nan() -> None:
    first, *later = reports(np.nan, 0.2, np.nan, 0.1)
    assert Monitor("accuracy").best([first, *later]) == 1
    assert Monitor("accuracy").best([first, first]) == 0
    assert not EarlyStopping(patience=2).stops([first, first, later[0]])


def test_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    found = classifier().fit(DATA, 2, DATA, QUIET, callbacks=[JsonLines(path, every=2)])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("step", f"epoch {line.get('epoch')}") for line in lines] == [
        *(2, "epoch 1", 4, 6, "epoch 2")
    ]
    assert lines[1]["loss"] == found[0].loss
    assert lines[1]["accuracy"] == found[0].accuracy
    assert lines[1]["steps"] == 3
    assert lines[1]["seconds"] >= 0


def test_lines_of_epochs_alone(tmp_path: Path) -> None:
    path = tmp_path / "run" / "log"
    classifier().fit(DATA, 2, reporter=QUIET, callbacks=[JsonLines(path)])
    assert len(path.read_text().splitlines()) == 2


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonLines(path, every=1)
    log.step(1, math.nan)
    log.epoch([EpochReport(1, 1, math.inf, {"accuracy": 0.5}, 1, 1.0)])
    first, second = map(json.loads, path.read_text().splitlines())
    assert first == {"step": 1, "loss": None}
    assert (second["loss"], second["accuracy"]) == (None, 0.5)


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    """A bound on the size of files has the system write what there is still room for."""
    resource: Any = pytest.importorskip("resource")
    path = tmp_path / "log.jsonl"
    log = JsonLines(path, every=1)
    log.step(1, 0.5)
    whole = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 5, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.step(2, 0.25)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == whole


# What they refuse


def test_an_unknown_number_to_go_by_is_an_error() -> None:
    match = "there is no `accuracy` to go by, only loss: name one of these, or give `fit`"
    with pytest.raises(ValueError, match=match):
        classifier().fit(untouched(), reporter=QUIET, callbacks=[EarlyStopping()])
    with pytest.raises(ValueError, match=match):
        classifier().fit(untouched(), reporter=QUIET, checkpoints=Checkpoints("x", best="accuracy"))
    match = "there is no `acuracy` to go by, only loss, eval_loss, accuracy: name one of these"
    with pytest.raises(ValueError, match=match):
        classifier().fit(untouched(), 1, DATA, QUIET, callbacks=[EarlyStopping("acuracy")])


def untouched() -> Iterator[Any]:
    """Batches of a training that may not begin."""
    yield pytest.fail("a batch was asked for")


def test_an_unknown_direction_is_an_error() -> None:
    with pytest.raises(ValueError, match='`direction` must be "auto", "lowest" or "highest", but'):
        EarlyStopping(direction="up")  # type: ignore[arg-type]  # the very point of the test


@pytest.mark.parametrize("patience", [0, 2.5, "3"])
def test_patience_is_at_least_an_epoch(patience: Any) -> None:
    match = f"`patience` must be at least 1 epoch, but it is {patience!r}"
    with pytest.raises(ValueError, match=match):
        EarlyStopping(patience=patience)


@pytest.mark.parametrize("gain", [-0.1, math.nan, math.inf, "a"])
def test_the_least_gain_is_a_number(gain: Any) -> None:
    match = f"`least_gain` must be a number of at least 0, but it is {gain!r}"
    with pytest.raises(ValueError, match=match):
        EarlyStopping(least_gain=gain)


def test_what_to_go_by_is_a_name() -> None:
    number: Any = 3
    match = 'what to go by is a name, such as "loss" or that of a metric, but it is 3'
    with pytest.raises(TypeError, match=match):
        EarlyStopping(number)
    with pytest.raises(TypeError, match=match):
        Checkpoints("run", best=number)


@pytest.mark.parametrize("every", [-1, 1.5, "a"])
def test_lines_are_written_every_so_many_steps(every: Any) -> None:
    match = f"`every` must be a number of steps, or 0 for no single steps, but it is {every!r}"
    with pytest.raises(ValueError, match=match):
        JsonLines("log.jsonl", every)


def test_a_callback_that_is_never_asked_is_an_error() -> None:
    """It may have the methods that are called elsewhere, and would do nothing in silence."""

    class Foreign(Callback):
        def on_epoch_end(self, epoch: int, logs: Any) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match=r"Foreign has none of the methods that `fit` calls, which"):
        classifier().fit(DATA, 1, reporter=QUIET, callbacks=[Foreign()])


@pytest.mark.parametrize("by", ["callback", "checkpoints"])
def test_the_direction_of_a_metric_of_ones_own_must_be_said(by: str, tmp_path: Path) -> None:
    """The best epoch by an error of the model would be its worst."""

    def error(scores: Any, ids: Any) -> Any:
        return scores.argmax(-1) != ids

    def options(direction: Any) -> Any:
        if by == "callback":
            return {"callbacks": [EarlyStopping("error", direction=direction)]}
        return {"checkpoints": Checkpoints(tmp_path, best="error", direction=direction)}

    match = 'whether a low `error` is good or a high one must be said: give direction="lowest" or'
    with pytest.raises(ValueError, match=match):
        classifier().fit(untouched(), 1, DATA, QUIET, metrics=[error], **options("auto"))
    classifier().fit(DATA, 1, DATA, QUIET, metrics=[error], **options("lowest"))
