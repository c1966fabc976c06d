"""Where a trainer keeps its state, so that no signal finds it between two steps."""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax

T = TypeVar("T")


class StateCell(Generic[T]):
    """Holds a state, which programs replace: their last result is the new one.

    A program takes the memory of the state that it is given. Python lets signals through after a
    call, so one that comes during a program must find the new state here already: it is put here by
    the very call that runs the program, of `extend`, which is written in C.
    """

    def __init__(self, state: T) -> None:
        self._results: deque[Any] = deque([(state,)], maxlen=1)

    @property
    def state(self) -> T:
        state: T = self._results[0][-1]
        return state

    @state.setter
    def state(self, state: T) -> None:
        self._results.append((state,))

    def run(self, program: Callable[..., Any], *args: Any) -> tuple[jax.Array, ...]:
        """What a program gives beside the new state, for the state and these arguments."""
        self._results.extend(map(program, (self.state,), *((arg,) for arg in args)))
        found: tuple[jax.Array, ...] = self._results[0][:-1]
        return found
