"""Trainings that break off: no batch is lost, and the trainer is as a step left it."""

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from small_models import batch, classifier

from relaxjax.lowering.arguments import ArgumentError
from relaxjax.training import Callback, Lines, Trainer
from relaxjax.training.interrupts import Uninterrupted

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


@pytest.mark.parametrize("options", [{}, {"steps_per_call": 1}, {"check_numerics": True}])
def test_an_interrupt_during_a_step_waits_for_its_state(
    options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step takes the memory of the state before it, so this one must not be all there is."""
    plain, other = started(), started()
    plain.fit(DATA, 1, reporter=QUIET, steps_per_call=1)
    step = type(other._step)
    for name in ("__call__", "many", "checked"):
        monkeypatch.setattr(step, name, _interrupted(getattr(step, name)))
    with pytest.raises(KeyboardInterrupt):
        other.fit(DATA[:1], 1, reporter=QUIET, **options)
    assert not other.stage._slots, "the device may still read what lies there"
    monkeypatch.undo()
    other.fit(DATA[1:], 1, reporter=QUIET)
    same(other, plain)


def _interrupted(run: Any) -> Any:
    def interrupted(*given: Any) -> Any:
        result = run(*given)
        signal.raise_signal(signal.SIGINT)
        return result

    return interrupted


def test_an_interrupt_goes_to_whom_it_would_have_gone_to() -> None:
    got: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
    try:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert not got
        assert got == [signal.SIGINT]
        with Uninterrupted():
            pass
        assert got == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize("count", [-1, 3])
def test_more_steps_than_batches_are_an_error(count: int) -> None:
    inputs, targets = (np.stack(parts) for parts in zip(*DATA[:2], strict=True))
    with pytest.raises(ValueError, match=f"`count` must be 0 to 2, .* but is {count}"):
        started().update_many(inputs, targets, count)
