"""Blocks in their tidy form, which is the one that survives printing and reading back."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from .expr import Var
from .function import Binding, BindingBlock
from .node import replace
from .walk import kept, used_vars


def tidy_blocks(blocks: tuple[BindingBlock, ...]) -> tuple[BindingBlock, ...]:
    """`blocks` without empty ones, neighbours of one kind joined.

    Where nothing is to be done, it is `blocks` itself.
    """
    return kept(blocks, _tidy(blocks))


def in_order(bindings: Sequence[Binding]) -> tuple[Binding, ...]:
    """Bindings, each after those that it uses, otherwise in the order they have."""
    own = {binding.var for binding in bindings}
    waiting = [(b, own.intersection(used_vars(b.value)) - {b.var}) for b in bindings]
    placed: dict[Var, Binding] = {}
    while waiting:
        index = next((i for i, (_, used) in enumerate(waiting) if used <= placed.keys()), None)
        if index is None:
            names = ", ".join(f"`{binding.var.name}`" for binding, _ in waiting)
            raise ValueError(f"there is no order for {names}: they would need each other")
        following, _ = waiting.pop(index)
        placed[following.var] = following
    return tuple(placed.values())


def _tidy(blocks: Sequence[BindingBlock]) -> Iterator[BindingBlock]:
    full = [block for block in blocks if block.bindings]
    for _, alike in groupby(full, key=type):
        first, *more = alike
        bindings: tuple[Binding, ...] = tuple(b for block in more for b in block.bindings)
        yield replace(first, bindings=(*first.bindings, *bindings)) if more else first
