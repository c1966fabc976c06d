"""Signals, such as interrupts from the keyboard, which must not part a step from its state."""

import signal
from collections.abc import Callable
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]


class Interrupts:
    """Within it, a signal that comes while it holds them waits until they are released.

    A step takes the memory of the state before it, so what it returns must not be lost; and who
    saves the trainer when a signal comes, such as that of a machine to be shut down, must find it.
    """

    def __init__(self) -> None:
        self._holds = False
        self._caught: dict[int, FrameType | None] = {}

    def __enter__(self) -> "Interrupts":
        # Python runs handlers in the main thread alone.
        numbers = signal.valid_signals() if current_thread() is main_thread() else ()
        handlers = ((number, signal.getsignal(number)) for number in numbers)
        self._former: dict[int, _Handler] = {n: h for n, h in handlers if callable(h)}
        for number in self._former:
            signal.signal(number, self._got)
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            if signal.getsignal(number) == self._got:
                signal.signal(number, former)

    def hold(self) -> None:
        self._holds = True

    def release(self) -> None:
        """Let signals through; those that came while they were held come here."""
        self._holds = False
        if self._caught:
            caught = self._caught.popitem()
            try:
                self._got(*caught)
            finally:  # that of the keyboard raises, and the others are to come all the same
                self.release()

    def _got(self, number: int, frame: FrameType | None) -> None:
        if self._holds:
            self._caught[number] = frame
        else:
            self._former[number](number, frame)
