"""Blocks in their tidy form, which is the one that survives printing and reading back."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby

from .function import Binding, BindingBlock
from .node import replace
from .walk import kept, used_vars
from .wording import quoted


def tidy_blocks(blocks: tuple[BindingBlock, ...]) -> tuple[BindingBlock, ...]:
    """`blocks` without empty ones, neighbours of one kind joined.

    Where nothing is to be done, it is `blocks` itself.
    """
    return kept(blocks, _tidy(blocks))


def in_order(bindings: Sequence[Binding]) -> tuple[Binding, ...]:
    """Bindings, each after those that it uses, otherwise in the order they have."""
    places = {binding.var: place for place, binding in enumerate(bindings)}
    readers: dict[int, list[int]] = {}
    missing: list[int] = []  # how many of those that it uses each is still without
    for place, binding in enumerate(bindings):
        needed = {places[var] for var in used_vars(binding.value) if var in places} - {place}
        missing.append(len(needed))
        for other in needed:
            readers.setdefault(other, []).append(place)
    ready = [place for place, count in enumerate(missing) if count == 0]  # in order, so a heap
    found: dict[int, Binding] = {}
    while ready:
        place = heappop(ready)
        found[place] = bindings[place]
        for reader in readers.get(place, ()):
            missing[reader] -= 1
            if missing[reader] == 0:
                heappush(ready, reader)
    if len(found) < len(bindings):
        left = (binding.var for place, binding in enumerate(bindings) if place not in found)
        names = quoted(var.name for var in left)
        raise ValueError(f"there is no order for {names}: they would need each other")
    return tuple(found.values())


def _tidy(blocks: Sequence[BindingBlock]) -> Iterator[BindingBlock]:
    full = [block for block in blocks if block.bindings]
    for _, alike in groupby(full, key=type):
        first, *more = alike
        bindings: tuple[Binding, ...] = tuple(b for block in more for b in block.bindings)
        yield replace(first, bindings=(*first.bindings, *bindings)) if more else first
