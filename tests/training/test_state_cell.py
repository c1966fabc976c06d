"""A trainer's state stays whole whenever a signal comes, in a loop of one's own too."""

import _thread
import signal
from functools import partial
from typing import Any, cast

import pytest

from relaxjax.training.state_cell import StateCell


def test_the_last_result_is_the_new_state() -> None:
    cell = StateCell(3)
    found: Any = cell.run(lambda state, x, y: (x, y, state + x + y), 4, 5)
    assert found == (4, 5)
    assert cell.state == 12
    cell.state = 7
    assert cell.state == 7


def test_a_program_that_fails_changes_nothing() -> None:
    cell = StateCell(3)
    with pytest.raises(ZeroDivisionError):
        cell.run(lambda state: (state // 0,))
    assert cell.state == 3


def test_a_signal_that_comes_during_a_program_finds_its_result() -> None:
    """The program is sorting, whose key sends the signal: all of it is written in C, as of JAX."""
    found: list[Any] = []
    cell, send = StateCell[Any]([signal.SIGINT]), cast("Any", _thread.interrupt_main)
    former = signal.signal(signal.SIGINT, lambda number, frame: found.append(cell.state))
    try:
        cell.run(partial(sorted, key=send))
    finally:
        signal.signal(signal.SIGINT, former)
    assert found == [signal.SIGINT]


def test_elsewhere_than_in_cpython_signals_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of many calls is parted from its result by none of them."""
    monkeypatch.setattr("relaxjax.training.state_cell._EXTENDS_IN_ONE_CALL", False)
    found: list[Any] = []
    cell = StateCell[Any](3)

    def interrupted(state: int) -> tuple[str, int]:
        signal.raise_signal(signal.SIGINT)
        return "loss", state + 1

    former = signal.signal(signal.SIGINT, lambda number, frame: found.append(cell.state))
    try:
        result: Any = cell.run(interrupted)
    finally:
        signal.signal(signal.SIGINT, former)
    assert (result, found) == (("loss",), [4])
    with pytest.raises(ZeroDivisionError):
        cell.run(lambda state: (state // 0,))
    assert cell.state == 4
