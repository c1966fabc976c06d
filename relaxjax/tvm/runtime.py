"""Values at run time."""

from collections.abc import Iterable
from typing import Any

import jax

from relaxjax.lowering import device

from .nd import NDArray as NDArray
from .nd import array as tensor
from .nd import empty as empty

__all__ = ["NDArray", "Tensor", "device_from_target", "empty", "tensor", "tuple_object"]

Tensor = NDArray


def device_from_target(target: Any, index: int = 0) -> jax.Device:
    """The device that a target is for: `device_from_target("llvm")` is the CPU."""
    return device(str(target), index)


def tuple_object(fields: Iterable[Any] = ()) -> tuple[Any, ...]:
    """A tuple of values."""
    return tuple(fields)
