"""What a training is looked at for between its steps: numbers that are none, weights of zeros."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.types import is_float

from .numerics import NumericsError

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


def check_params(params: Mapping[str, Any], step: int, epoch: int) -> None:
    """Raise where a parameter is not finite after a step; no later one would make it so."""
    for name, array in params.items():
        if is_float(str(array.dtype)) and not _all_finite(array):
            raise DivergedError(
                f"after step {step}, in epoch {epoch}, the parameter `{name}` is not finite"
            )


def warn_of_zeros(params: Mapping[str, Any]) -> None:
    """Warn where nothing but zeros is multiplied, so that zeros are what gradients become, too.

    A single matrix of zeros is a good start for a linear model.
    """
    matrices = [array for array in params.values() if array.ndim > 1]
    if len(matrices) > 1 and not any(np.any(_on_host(array)) for array in matrices):
        warnings.warn(
            f"all {len(matrices)} matrices among the parameters are zero, and so may their "
            "gradients be: a training that begins there may learn next to nothing; draw them by "
            "trainer.xavier_uniform_init_params(seed=0), or load them",
            stacklevel=4,  # where `Trainer.fit` was called
        )


def _all_finite(array: Any) -> bool:
    on_host = _on_host(array)
    return bool((np if isinstance(on_host, np.ndarray) else jnp).isfinite(on_host).all())


def _on_host(array: Any) -> Any:
    """The array as numpy's where that copies and compiles nothing."""
    is_here = isinstance(array, jax.Array) and array.is_fully_addressable
    if is_here and {device.platform for device in array.devices()} == {"cpu"}:
        return np.asarray(array)
    return array
