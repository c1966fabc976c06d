"""Interrupts from the keyboard, which must not come between a step and its new state."""

import signal
from threading import current_thread, main_thread
from types import FrameType


class Uninterrupted:
    """Within it, an interrupt waits for the end.

    A step takes the memory of the state before it, so what it returns must not be lost.
    """

    def __init__(self) -> None:
        self._caught: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        # Python runs handlers in the main thread alone.
        former = signal.getsignal(signal.SIGINT) if current_thread() is main_thread() else None
        self._former = former if callable(former) else None
        if self._former is not None:
            signal.signal(signal.SIGINT, self._catch)

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)
            if self._caught is not None:
                self._former(*self._caught)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self._caught = number, frame
