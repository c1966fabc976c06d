"""Memory in which the batches of one call are put side by side."""

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from .door import as_array

Batch: TypeAlias = tuple[Any, Any]
Array: TypeAlias = np.ndarray[Any, Any]

PART = "an array of a batch"
_ALIGNMENT = 64  # bytes; JAX's CPU takes aligned memory as it is, without a copy
_SLOTS = 2  # one is filled while the device reads the other


class Slot:
    """Room for several batches of one shape: each array with a dimension more in front."""

    def __init__(self, batch: Batch, size: int) -> None:
        self.kind = (size, signature(batch))
        self.size = size
        self.count = 0
        self.readers: list[Any] = []
        self._listed = [isinstance(part, list | tuple) for part in batch]
        self._parts = [[_room(size, array) for array in arrays_of(part)] for part in batch]

    def add(self, batch: Batch) -> None:
        """Copy a batch to its place."""
        for rooms, part in zip(self._parts, batch, strict=True):
            for room, array in zip(rooms, arrays_of(part), strict=True):
                room[self.count] = array
        self.count += 1

    def whole(self) -> Batch:
        """All batches as one; a part that is a list in the batches is one here."""
        inputs, targets = (
            list(rooms) if is_listed else rooms[0]
            for rooms, is_listed in zip(self._parts, self._listed, strict=True)
        )
        return inputs, targets

    def clear(self) -> None:
        """Make room again, once those who were to read what lies here have done so."""
        for losses in self.readers:
            np.asarray(losses)  # waits for the device
        self.readers.clear()
        self.count = 0


class Stage:
    """Slots to fill one after another; with `reuse` there are two, which take turns."""

    def __init__(self, reuse: bool = False) -> None:
        self._reuse = reuse
        self._slots: deque[Slot] = deque(maxlen=_SLOTS)

    def slot(self, batch: Batch, size: int) -> Slot:
        """An empty slot for batches like this one."""
        oldest = self._slots[0] if len(self._slots) == _SLOTS and self._reuse else None
        if oldest is not None and oldest.kind == (size, signature(batch)):
            oldest.clear()
            self._slots.rotate(-1)
            return oldest
        self._slots.append(Slot(batch, size))
        return self._slots[-1]

    def read_by(self, losses: Any) -> None:
        """The last slot has been read once these losses are there."""
        if self._slots:
            self._slots[-1].readers.append(losses)


def signature(batch: Batch) -> tuple[Any, ...]:
    """The shapes and dtypes of a batch."""
    return tuple(tuple(map(_kind, arrays_of(part))) for part in batch)


def arrays_of(part: Any) -> Sequence[Any]:
    """The arrays of the inputs or the targets of a batch."""
    return part if isinstance(part, list | tuple) else (part,)


def _kind(array: Any) -> tuple[Any, Any]:
    known = array if hasattr(array, "shape") and hasattr(array, "dtype") else as_array(PART, array)
    return known.shape, known.dtype


def _room(size: int, like: Any) -> Array:
    """Aligned memory for so many arrays; what is not filled is looked at too, so it holds zeros."""
    array: Array = as_array(PART, like)
    count = size * array.nbytes
    memory = np.zeros(count + _ALIGNMENT, "uint8")
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(array.dtype).reshape(size, *array.shape)
