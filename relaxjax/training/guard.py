"""Watching the numbers of a training: cheap while all is well, exact once something is wrong."""

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np

from .feeding import Call
from .numerics import NumericsError
from .staging import Batch

READ_EVERY = 32  # steps; reading a flag waits for the device


class Checkable(Protocol):
    """What the guard asks of a trainer."""

    def update_checked(
        self, batch: Batch, is_sound: Any, count: int | None
    ) -> tuple[jax.Array, jax.Array]: ...

    def check_numerics(self, inputs: Any, targets: Any) -> None: ...


class Guard:
    """Makes steps that leave the state as it is once a loss or a gradient was not finite.

    Whether that happened is read from the device once in a while. If so, the trainer is still in
    the state before the bad step, and runs that step's batch again, binding by binding.
    """

    def __init__(self, trainer: Checkable) -> None:
        self._trainer = trainer
        self._is_sound: Any = True
        self._unread: list[tuple[int, Call, Any, Any]] = []

    def update(self, before: int, call: Call) -> jax.Array:
        """Make the steps of a call after the first `before`; their losses."""
        count = call.steps if call.is_stacked else None
        losses, flags = self._trainer.update_checked(call.batch, self._is_sound, count)
        self._is_sound = flags[-1] if call.is_stacked else flags
        self._unread.append((before, call, losses, flags))
        if sum(call.steps for _, call, _, _ in self._unread) >= READ_EVERY:
            self.read()
        return losses

    def read(self) -> None:
        """Raise the error of the first bad step among those whose flags were not read yet."""
        unread, self._unread = self._unread, []
        if not unread or bool(self._is_sound):
            return
        for before, call, losses, flags in unread:
            bad = np.flatnonzero(~np.atleast_1d(np.asarray(flags)))
            if bad.size:
                first = int(bad[0])
                loss = float(np.atleast_1d(np.asarray(losses))[first])
                self._is_sound = True
                self._explain(before + first + 1, loss, _taken(call, first))

    def _explain(self, step: int, loss: float, batch: Batch) -> None:
        what = f"the loss is {loss:g}" + (", a gradient is not finite" if np.isfinite(loss) else "")
        try:
            self._trainer.check_numerics(*batch)
        except NumericsError as error:
            raise NumericsError(f"step {step}: {what}\n{error}") from None
        raise NumericsError(
            f"step {step}: {what}; run again binding by binding, all of it is finite: the batch "
            "was changed in place since, or a rounding of the compiled program is to blame"
        )


def _taken(call: Call, index: int) -> Batch:
    """The batch of one step, out of the stacked ones of a call."""
    if not call.is_stacked:
        return call.batch
    inputs, targets = (_item(part, index) for part in call.batch)
    return inputs, targets


def _item(part: Any, index: int) -> Any:
    is_listed = isinstance(part, list | tuple)
    listed: Sequence[Any] = part if is_listed else [part]
    items = [array[index] for array in listed]
    return items if is_listed else items[0]
