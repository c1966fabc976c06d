"""Blocks in their tidy form, which is the one that survives printing and reading back."""

from collections.abc import Iterator, Sequence

from .expr import Var
from .function import Binding, BindingBlock, DataflowBlock
from .node import replace
from .walk import kept, used_vars


def tidy_blocks(blocks: tuple[BindingBlock, ...]) -> tuple[BindingBlock, ...]:
    """`blocks` without empty ones, neighbours joined unless they are dataflow blocks.

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
    run: list[BindingBlock] = []
    for block in blocks:
        if isinstance(block, DataflowBlock) and block.bindings:
            yield from _joined(run)
            yield block
            run = []
        elif block.bindings:
            run.append(block)
    yield from _joined(run)


def _joined(run: list[BindingBlock]) -> Iterator[BindingBlock]:
    if len(run) == 1:
        yield run[0]
    elif run:
        bindings: tuple[Binding, ...] = tuple(b for block in run for b in block.bindings)
        yield replace(run[0], bindings=bindings)
