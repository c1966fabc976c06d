"""Trainings that break off: no batch is lost, and the trainer is as a step left it."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import batch, classifier

from relaxjax.lowering.arguments import ArgumentError
from relaxjax.training import Callback, Lines, Trainer
from relaxjax.training.state_cell import Interrupts

DATA = [batch(seed) for seed in range(5)]
QUIET = Lines(lambda line: None)


class Steps(Callback):
    """Keeps the numbers of the steps that it is told of."""

    looks_at_loss_only = True

    def __init__(self) -> None:
        self.told: list[int] = []

    def step(self, step: int, loss: Any) -> None:
        self.told.append(step)


def started() -> Trainer:
    trainer = classifier()
    trainer.xavier_uniform_init_params(seed=4)
    return trainer


def same(one: Trainer, other: Trainer) -> None:
    for name, expected in other.export_params().items():
        np.testing.assert_allclose(one.export_params()[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "options", [{}, {"steps_per_call": 2}, {"prefetch": 2}, {"prefetch": 2, "steps_per_call": 1}]
)
def test_batches_before_an_error_are_trained_on(options: Any, error: type[BaseException]) -> None:
    def loader(epoch: int) -> Iterator[Any]:
        yield from DATA
        raise error("the disk is gone")

    plain, other, steps = started(), started(), Steps()
    plain.fit(DATA, 1, reporter=QUIET, steps_per_call=1)
    with pytest.raises(error, match="the disk is gone"):
        other.fit(loader, 1, reporter=QUIET, callbacks=[steps], **options)
    same(other, plain)
    assert steps.told == [1, 2, 3, 4, 5]


def test_batches_before_one_that_does_not_fit_are_trained_on() -> None:
    plain, other = started(), started()
    plain.fit(DATA, 1, reporter=QUIET, steps_per_call=1)
    with pytest.raises(ArgumentError, match="`x` must be 8"):
        other.fit([*DATA, (np.zeros((3, 3), "float32"), DATA[0][1])], 1, reporter=QUIET)
    same(other, plain)


@pytest.fixture
def _interrupts_are_heard() -> Iterator[None]:
    """As in a process that a terminal started: one in the background ignores them."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("_interrupts_are_heard")
@pytest.mark.parametrize("options", [{}, {"steps_per_call": 1}, {"check_numerics": True}])
def test_an_interrupt_during_a_step_waits_for_its_state(
    options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step takes the memory of the state before it, so this one must not be all there is."""
    plain, other = started(), started()
    plain.fit(DATA, 1, reporter=QUIET, steps_per_call=1)
    for name in ("one", "many", "one_checked", "many_checked"):
        monkeypatch.setattr(other._step, name, _interrupted(getattr(other._step, name)))
    with pytest.raises(KeyboardInterrupt):
        other.fit(DATA[:1], 1, reporter=QUIET, **options)
    assert all(slot.readers for slot in other.stage._slots)
    monkeypatch.undo()
    other.fit(DATA[1:], 1, reporter=QUIET)
    same(other, plain)


def _interrupted(run: Any, number: int = signal.SIGINT) -> Any:
    def interrupted(*given: Any) -> Any:
        result = run(*given)
        signal.raise_signal(number)
        return result

    return interrupted


@pytest.fixture
def got() -> Iterator[list[int]]:
    """The interrupts that come to somebody who waits for them."""
    found: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGINT, former)


def test_interrupts_wait_only_while_they_are_held(got: list[int]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert len(got) == 1
        interrupts.hold()
        signal.raise_signal(signal.SIGINT)
        assert len(got) == 1
        interrupts.release()
        assert len(got) == 2
        interrupts.release()
    assert len(got) == 2
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a signal that Windows lacks")
def test_who_saves_at_a_signal_finds_the_state_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as at the one that a cluster sends to a training before it ends it."""
    plain, other = started(), started()
    plain.fit(DATA[:1], 1, reporter=QUIET)
    path = tmp_path / "saved.safetensors"
    for name in ("one", "many"):
        run = _interrupted(getattr(other._step, name), signal.SIGUSR1)
        monkeypatch.setattr(other._step, name, run)
    former = signal.signal(signal.SIGUSR1, lambda number, frame: other.save(path))
    try:
        other.fit(DATA[:1], 1, reporter=QUIET)
    finally:
        signal.signal(signal.SIGUSR1, former)
    other.zero_init_params()
    other.load(path)
    same(other, plain)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a signal that Windows lacks")
@pytest.mark.parametrize("first", ["SIGUSR1", "SIGINT"])
def test_a_signal_comes_though_another_one_ends_the_training(first: str) -> None:
    came: list[int] = []
    former = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    # Who runs the tests in the background has interrupts ignored.
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interrupts() as interrupts:
            interrupts.hold()
            for name in (first, *({"SIGUSR1", "SIGINT"} - {first})):
                signal.raise_signal(getattr(signal, name))
            with pytest.raises(KeyboardInterrupt):
                interrupts.release()
    finally:
        signal.signal(signal.SIGUSR1, former)
        signal.signal(signal.SIGINT, interrupted)
    assert came == [signal.SIGUSR1]


def test_a_handler_that_somebody_sets_meanwhile_stays(got: list[int]) -> None:
    with Interrupts():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_train_as_well() -> None:
    plain, other = started(), started()
    plain.fit(DATA, 1, reporter=QUIET)
    thread = threading.Thread(target=other.fit, args=(DATA, 1), kwargs={"reporter": QUIET})
    thread.start()
    thread.join()
    same(other, plain)


@pytest.mark.parametrize("count", [-1, 3])
def test_more_steps_than_batches_are_an_error(count: int) -> None:
    inputs, targets = (np.stack(parts) for parts in zip(*DATA[:2], strict=True))
    with pytest.raises(ValueError, match=f"`count` must be 0 to 2, .* but is {count}"):
        started().update_many(inputs, targets, count)


@pytest.mark.parametrize("count", [2.0, True, "2"])
def test_a_number_of_batches_is_an_integer(count: Any) -> None:
    inputs, targets = (np.stack(parts) for parts in zip(*DATA[:2], strict=True))
    with pytest.raises(TypeError, match=f"`count` must be an integer, .* but it is {count!r}"):
        started().update_many(inputs, targets, count)
