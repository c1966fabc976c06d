"""Interrupts from the keyboard, which must not come between a step and its new state."""

import signal
from threading import current_thread, main_thread
from types import FrameType


class Interrupts:
    """Within it, an interrupt that comes while it holds them waits until they are released.

    A step takes the memory of the state before it, so what it returns must not be lost.
    """

    def __init__(self) -> None:
        self._holds = False
        self._caught: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> "Interrupts":
        # Python runs handlers in the main thread alone.
        former = signal.getsignal(signal.SIGINT) if current_thread() is main_thread() else None
        self._former = former if callable(former) else None
        if self._former is not None:
            signal.signal(signal.SIGINT, self._got)
        return self

    def __exit__(self, *_: object) -> None:
        if self._former is not None and signal.getsignal(signal.SIGINT) == self._got:
            signal.signal(signal.SIGINT, self._former)

    def hold(self) -> None:
        self._holds = True

    def release(self) -> None:
        """Let interrupts through; one that came while they were held comes here."""
        self._holds = False
        if self._caught is not None:
            caught, self._caught = self._caught, None
            self._got(*caught)

    def _got(self, number: int, frame: FrameType | None) -> None:
        if self._holds:
            self._caught = number, frame
        elif self._former is not None:
            self._former(number, frame)
