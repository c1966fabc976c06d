"""How batches reach the device: one by one or several in a call, some of them ahead of time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from .staging import Batch, Slot, Stage, signature

Call: TypeAlias = tuple[int, Batch]  # how many steps, and their batch; stacked where several


def paired(batches: Iterable[Any], names: tuple[list[str], list[str]]) -> Iterator[Batch]:
    """The batches as `(inputs, targets)`; those that are mappings by the names of these."""
    for batch in batches:
        if isinstance(batch, Mapping):
            inputs, targets = (_columns(batch, part) for part in names)
            yield inputs, targets
        elif isinstance(batch, list | tuple) and len(batch) == 2:
            yield batch[0], batch[1]
        else:
            raise TypeError(
                "a batch is a pair (inputs, targets), or a mapping from their names to arrays, but "
                f"{_described(batch)} was given"
            )


def calls(
    batches: Iterable[Batch],
    size: int | Callable[[Batch], int],
    skip: int = 0,
    stage: Stage | None = None,
) -> Iterator[Call]:
    """The batches as calls of up to so many steps, without the first `skip` batches.

    Only batches of equal shapes share a call, and a call that would not be full is made of single
    steps: so two programs serve all. `size` may be a function of the first batch. Batches that
    share a call are copied side by side on the stage as they come.
    """
    stage = stage or Stage()
    most = size if isinstance(size, int) else 0
    slot: Slot | None = None
    for batch in islice(batches, skip, None):
        most = size(batch) if callable(size) and not most else most
        if most == 1:
            yield 1, batch
            continue
        if slot is not None and slot.kind != (most, signature(batch)):
            yield from ((1, single) for single in slot.each())
            slot = None
        slot = slot or stage.slot(batch, most)
        slot.add(batch)
        if slot.count == most:
            yield most, slot.whole()
            slot = None
    if slot is not None:
        yield from ((1, single) for single in slot.each())


def ahead(calls: Iterable[Call], depth: int, place: Callable[[Batch], Batch]) -> Iterator[Call]:
    """The calls, with up to `depth` of them on their way to the device before they are needed."""
    if not depth:
        yield from calls
        return
    waiting: deque[Call] = deque()
    for steps, batch in calls:
        waiting.append((steps, place(batch)))
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from waiting


def _columns(batch: Mapping[str, Any], names: list[str]) -> list[Any]:
    for name in names:
        if name not in batch:
            held = ", ".join(f"`{known}`" for known in batch)
            raise ValueError(f"a batch must have `{name}`, but it has {held}: rename its columns")
    return [batch[name] for name in names]


def _described(batch: Any) -> str:
    kind = type(batch).__name__
    return f"a {kind} of {len(batch)}" if isinstance(batch, list | tuple) else f"a {kind}"
