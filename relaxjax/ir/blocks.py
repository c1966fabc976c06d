"""Blocks in their tidy form, which is the one that survives printing and reading back."""

from collections.abc import Iterator, Sequence

from .function import Binding, BindingBlock, DataflowBlock
from .node import replace
from .walk import kept


def tidy_blocks(blocks: tuple[BindingBlock, ...]) -> tuple[BindingBlock, ...]:
    """`blocks` without empty ones, neighbours joined unless they are dataflow blocks.

    Where nothing is to be done, it is `blocks` itself.
    """
    return kept(blocks, _tidy(blocks))


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
