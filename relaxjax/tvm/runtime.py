"""Values at run time."""

from collections.abc import Iterable
from typing import Any

from .nd import NDArray as NDArray
from .nd import array as tensor

__all__ = ["NDArray", "Tensor", "tensor", "tuple_object"]

Tensor = NDArray


def tuple_object(fields: Iterable[Any] = ()) -> tuple[Any, ...]:
    """A tuple of values."""
    return tuple(fields)
