"""How batches reach the device: one by one or several in a call, some of them ahead of time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

Batch: TypeAlias = tuple[Any, Any]
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
    batches: Iterable[Batch], size: int | Callable[[Batch], int], skip: int = 0
) -> Iterator[Call]:
    """The batches as calls of up to so many steps, without the first `skip` batches.

    Only batches of equal shapes share a call, and a call that would not be full is made of single
    steps: so two programs serve all. `size` may be a function of the first batch.
    """
    group: list[Batch] = []
    most = size if isinstance(size, int) else 0
    for batch in islice(batches, skip, None):
        most = size(batch) if callable(size) and not most else most
        if group and _shapes(batch) != _shapes(group[0]):
            yield from _singly(group)
            group = []
        group.append(batch)
        if len(group) == most:
            yield (most, _stacked(group)) if most > 1 else (1, batch)
            group = []
    yield from _singly(group)


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


def _singly(group: Sequence[Batch]) -> Iterator[Call]:
    yield from ((1, batch) for batch in group)


def _stacked(group: Sequence[Batch]) -> Batch:
    """Batches as one, with a dimension more in front."""
    inputs, targets = zip(*group, strict=True)
    return _stacked_part(inputs), _stacked_part(targets)


def _stacked_part(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], list | tuple):
        return [np.stack([np.asarray(x) for x in xs]) for xs in zip(*parts, strict=True)]
    return np.stack([np.asarray(x) for x in parts])


def _shapes(batch: Batch) -> list[tuple[int, ...]]:
    parts = (part if isinstance(part, list | tuple) else [part] for part in batch)
    return [np.shape(array) for part in parts for array in part]
