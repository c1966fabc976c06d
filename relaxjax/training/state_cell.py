"""Where a trainer keeps its state, so that no signal finds it between two steps."""

import signal
import sys
from collections import deque
from collections.abc import Callable
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Generic, TypeAlias, TypeVar

import jax
import numpy as np

from relaxjax.passes.infrastructure.kept_executables import KeptExecutable
from relaxjax.passes.infrastructure.pause_gc import collector_paused

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


T = TypeVar("T")

# CPython's `extend` is written in C: it runs the program and puts its result here in one call,
# which no signal parts, and that costs a step nothing. Elsewhere signals have to be held, and where
# a program is written in Python in part.
_EXTENDS_IN_ONE_CALL = sys.implementation.name == "cpython"


class StateCell(Generic[T]):
    """Holds a state, which programs replace: their last result is the new one.

    A program takes the memory of the state that it is given. Python lets signals through after a
    call, so one that comes during a program must find the new state here already.
    """

    def __init__(self, state: T) -> None:
        self._results: deque[Any] = deque([(state,)], maxlen=1)
        self._awaited: set[Any] = set()  # programs that have run, by the shapes of what they took

    @property
    def state(self) -> T:
        state: T = self._results[0][-1]
        return state

    @state.setter
    def state(self, state: T) -> None:
        self._results.append((state,))

    def run(self, program: Callable[..., Any], *args: Any) -> tuple[jax.Array, ...]:
        """What a program gives beside the new state, for the state and these arguments.

        The first time it is waited for: a CPU takes its memory as it runs, and may have too little.
        """
        kind = program, tuple(map(np.shape, jax.tree.leaves(args)))
        if kind in self._awaited:
            return self._run(program, args)
        with collector_paused():  # the program is traced
            found = self._run(program, args)
        jax.block_until_ready(found)
        self._awaited.add(kind)
        return found

    def _run(self, program: Callable[..., Any], args: tuple[Any, ...]) -> tuple[jax.Array, ...]:
        if _EXTENDS_IN_ONE_CALL and not isinstance(program, KeptExecutable):
            self._results.extend(map(program, (self.state,), *((arg,) for arg in args)))
        else:
            with Interrupts() as interrupts:
                interrupts.hold()
                try:
                    self._results.append(program(self.state, *args))
                finally:
                    interrupts.release()
        found: tuple[jax.Array, ...] = self._results[0][:-1]
        return found
