"""Watching the numbers of a training: cheap while all is well, exact once something is wrong."""

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.types import is_float

from .batches.feeding import Batch, Call
from .batches.ids import is_on_host
from .numerics import NumericsError
from .trained_model import TrainedModel

READ_EVERY = 32  # steps; reading a flag waits for the device

_MEND = (
    "make the learning rate smaller, look at the data, or find where that comes from by "
    "check_numerics=True; with check_numerics=False the training would go on"
)


class DivergedError(NumericsError):
    """A loss or a parameter of a training is NaN or infinite; `found` says which, and when."""

    def __init__(self, found: str, mend: str = _MEND) -> None:
        super().__init__(f"{found}: {mend}")
        self.found = found


def check_losses(losses: Sequence[float], first: int, epoch: int) -> None:
    """Raise where the loss of a step is not finite; `first` is the number of their first step."""
    for step, loss in enumerate(losses, start=first):
        if not math.isfinite(loss):
            raise DivergedError(f"the loss of step {step}, in epoch {epoch}, is {loss:g}")


def check_params(trainer: TrainedModel, step: int, epoch: int) -> None:
    """Raise where a parameter is not finite after a step; no later one would make it so."""
    if are_finite(trainer.stored_params):
        return
    for name, array in trainer.each_param():
        if not are_finite([array]):
            raise DivergedError(
                f"after step {step}, in epoch {epoch}, the parameter `{name}` is not finite"
            )


def are_finite(arrays: Iterable[Any]) -> bool:
    """Whether each number is, of whatever integers and random keys are among the arrays."""
    return all(_is_finite(array) for array in arrays if is_float(str(array.dtype)))


def warn_of_zeros(trainer: TrainedModel) -> None:
    """Warn where nothing but zeros is multiplied, so that zeros are what gradients become, too.

    A single matrix of zeros is a good start for a linear model.
    """
    count = 0
    for _, array in trainer.each_param():
        if array.ndim > 1 and np.any(_on_host(array)):
            return  # at the first one, as a rule
        count += array.ndim > 1
    if count > 1:
        warnings.warn(
            f"all {count} matrices among the parameters are zero, and so may their gradients be: "
            "a training that begins there may learn next to nothing; draw them by "
            "trainer.xavier_uniform_init_params(seed=0), or load them",
            stacklevel=4,  # where `Trainer.fit` was called
        )


def _is_finite(array: Any) -> bool:
    on_host = _on_host(array)
    return bool((np if isinstance(on_host, np.ndarray) else jnp).isfinite(on_host).all())


def _on_host(array: Any) -> Any:
    """The array as numpy's where that copies and compiles nothing."""
    return np.asarray(array) if is_on_host(array) else array


class Guard:
    """Makes steps that leave the state as it is once a loss or a gradient was not finite.

    Whether that happened is read from the device once in a while. If so, the trainer is still in
    the state before the bad step, and runs that step's batch again, binding by binding.
    """

    def __init__(self, trainer: TrainedModel) -> None:
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
