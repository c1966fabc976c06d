"""How batches reach the device: one by one or several in a call, some of them ahead of time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import numpy as np

from relaxjax.ir.wording import a_kind, quoted
from relaxjax.training.inputs import as_array, as_list, check_mask, holds_numbers

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
        self._parts = [[_room(size, array) for array in as_list(part)] for part in batch]

    def add(self, batch: Batch) -> None:
        """Copy a batch to its place."""
        for rooms, part in zip(self._parts, batch, strict=True):
            for room, array in zip(rooms, as_list(part), strict=True):
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
    return tuple(tuple(map(_kind, as_list(part))) for part in batch)


def _kind(array: Any) -> tuple[Any, Any]:
    known = array if hasattr(array, "shape") and hasattr(array, "dtype") else as_array(PART, array)
    return known.shape, known.dtype


def _has_room(kind: tuple[Any, ...]) -> bool:
    """Whether such batches can lie side by side; what holds no numbers is refused by itself.

    Batches without arrays do not tell how many of them there are.
    """
    return any(kind) and all(holds_numbers(dtype) for part in kind for _, dtype in part)


def _room(size: int, like: Any) -> Array:
    """Aligned memory for so many arrays; what is not filled is looked at too, so it holds zeros."""
    array: Array = as_array(PART, like)
    count = size * array.nbytes
    memory = np.zeros(count + _ALIGNMENT, "uint8")
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(array.dtype).reshape(size, *array.shape)


T = TypeVar("T")


class Call(NamedTuple):
    """One call of the device: so many steps on a batch, or on the first of several stacked ones."""

    steps: int
    batch: Batch
    is_stacked: bool = False


def paired(batches: Iterable[Any], names: tuple[list[str], list[str]]) -> Iterator[Batch]:
    """The batches as `(inputs, targets)`; what of them is a mapping goes by the names of these."""
    for batch in batches:
        if isinstance(batch, Mapping):
            inputs, targets = (_columns(batch, part) for part in names)
        elif isinstance(batch, list | tuple) and len(batch) == 2:
            inputs, targets = (
                _columns(part, known) if isinstance(part, Mapping) else part
                for part, known in zip(batch, names, strict=True)
            )
        else:
            raise TypeError(
                "a batch is a pair (inputs, targets), or a mapping from their names to arrays, but "
                f"{_described(batch)} was given; relaxjax.datasets.batches cuts arrays into batches"
            )
        for name, part in (("inputs", inputs), ("targets", targets)):
            if part is None:
                raise TypeError(
                    f"the {name} of a batch are None: give an array, or an empty list where the "
                    "model takes none"
                )
            for array in as_list(part):
                check_mask(PART, array)
        yield inputs, targets


def calls(
    batches: Iterable[Batch],
    size: int | Callable[[Batch], int],
    skip: int = 0,
    stage: Stage | None = None,
    ends: Callable[[int], bool] = lambda step: False,
) -> Iterator[Call]:
    """The batches as calls of up to so many steps, without the first `skip` batches.

    `size` may be a function of the batch. Only batches of equal shapes share a call, and one for
    which `ends` holds, given how many there are up to it, is the last of its call. Batches that
    share a call are copied side by side on the stage as they come. Where the batches end in an
    error, those before it are given first.
    """
    stage = stage or Stage()
    slot: Slot | None = None
    sized = _UpToError(_sized(_after(batches, skip), size))
    for step, (batch, kind) in enumerate(sized, start=skip + 1):
        if slot is not None and slot.kind != kind:
            yield _call(slot)
            slot = None
        if kind[0] == 1:
            yield Call(1, batch)
            continue
        slot = slot or stage.slot(batch, kind[0])
        slot.add(batch)
        if slot.count == slot.size or ends(step):
            yield _call(slot)
            slot = None
    if slot is not None:
        yield _call(slot)
    sized.end()


def _after(batches: Iterable[Batch], skip: int) -> Iterator[Batch]:
    """The batches after those on which steps were made before the training broke off."""
    rest = iter(batches)
    found = sum(1 for _ in islice(rest, skip))
    if found < skip:
        raise ValueError(
            f"the checkpoint was written after {skip} steps of an epoch for which `data` has only "
            f"{found} batches now: go on with the data that the training began with"
        )
    yield from rest


def _sized(
    batches: Iterable[Batch], size: int | Callable[[Batch], int]
) -> Iterator[tuple[Batch, tuple[int, Any]]]:
    """Each batch with the kind of slot that it belongs in."""
    sizes: dict[Any, int] = {}
    for batch in batches:
        kind = None if size == 1 else signature(batch)
        if kind not in sizes:
            is_alone = kind is not None and not _has_room(kind)
            sizes[kind] = 1 if is_alone else size if isinstance(size, int) else size(batch)
        yield batch, (sizes[kind], kind)


def _call(slot: Slot) -> Call:
    return Call(slot.count, slot.whole(), is_stacked=True)


def kept(call: Call) -> Call:
    """A call that keeps its numbers while the device reads them, whatever becomes of the batch.

    A loader may write the next batch over the last one. What is stacked is a copy already.
    """
    if call.is_stacked:
        return call
    inputs, targets = map(_copied, call.batch)
    return call._replace(batch=(inputs, targets))


def _copied(part: Any) -> Any:
    if isinstance(part, list | tuple):
        return [_copied(array) for array in part]
    return part if isinstance(part, jax.Array) else np.array(as_array(PART, part))


def ahead(
    calls: Iterable[Call], depth: int, place: Callable[[Batch, int | None], Batch]
) -> Iterator[Call]:
    """The calls, with up to `depth` of them on their way to the device before they are needed."""
    if not depth:
        yield from calls
        return
    waiting: deque[Call] = deque()
    placed = _UpToError(
        call._replace(batch=place(call.batch, call.steps if call.is_stacked else None))
        for call in calls
    )
    for call in placed:
        waiting.append(call)
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from waiting
    placed.end()


class _UpToError(Iterator[T]):
    """The items before an error, which `end` raises once they are used."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._error: BaseException | None = None

    def __next__(self) -> T:
        try:
            return next(self._items)
        except StopIteration:
            raise
        except BaseException as error:
            self._error = error
            raise StopIteration from None

    def end(self) -> None:
        if self._error is not None:
            raise self._error


def _columns(batch: Mapping[str, Any], names: list[str]) -> list[Any]:
    for name in names:
        if name not in batch:
            held = quoted(batch)
            raise ValueError(f"a batch must have `{name}`, but it has {held}: rename its columns")
    return [batch[name] for name in names]


def _described(batch: Any) -> str:
    kind = a_kind(batch)
    return f"{kind} of {len(batch)}" if isinstance(batch, list | tuple) else kind
