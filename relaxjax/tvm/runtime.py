"""Values at run time."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import jax

from relaxjax.lowering import device

from .nd import NDArray as NDArray
from .nd import array as tensor
from .nd import empty as empty
from .nd import from_dlpack as from_dlpack
from .testing import device_enabled

__all__ = [
    "Device",
    "NDArray",
    "Scriptable",
    "Tensor",
    "device_from_target",
    "empty",
    "enabled",
    "from_dlpack",
    "tensor",
    "tuple_object",
]

Tensor = NDArray
Device = jax.Device


@runtime_checkable
class Scriptable(Protocol):
    """Whatever prints as a script: a module, a function, an expression, a type."""

    def script(self) -> Any: ...

    def show(self) -> None: ...


def enabled(target: Any) -> bool:
    """Whether programs for a target run here: `enabled("llvm")`."""
    named = target.get("kind", "") if isinstance(target, Mapping) else target
    return str(named) == "cpu" or device_enabled(named)


def device_from_target(target: Any, index: int = 0) -> jax.Device:
    """The device that a target is for: `device_from_target("llvm")` is the CPU."""
    return device(str(target), index)


def tuple_object(fields: Iterable[Any] = ()) -> tuple[Any, ...]:
    """A tuple of values."""
    return tuple(fields)
