"""Runs of pure bindings as dataflow blocks."""

from collections.abc import Iterator
from itertools import groupby
from typing import TypeAlias

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.expr import Call
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function, If, SeqExpr
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import hide_unused_outputs
from relaxjax.ir.walk import map_sequences
from relaxjax.passes.infrastructure.base import pass_factory

Run: TypeAlias = list[tuple[int, Binding]]


@pass_factory(opt_level=0, kind="function")
def ConvertToDataflow(function: Function, mod: IRModule, min_size: int = 2) -> Function:
    """Put each run of at least `min_size` pure bindings into one dataflow block.

    Dataflow blocks that are there grow by the pure bindings beside them. Calls with effects and
    choices between branches stand between the blocks; what they hold inside is converted too.
    """
    if min_size < 1:
        raise ValueError(f"`min_size` must be at least 1, found {min_size}")

    converted = map_sequences(function, lambda seq: _converted(seq, min_size))
    return function if converted is function else hide_unused_outputs(converted)


def _converted(seq: SeqExpr, min_size: int) -> SeqExpr:
    blocks: list[BindingBlock] = []
    for run in _runs(seq.blocks):
        bindings = tuple(binding for _, binding in run)
        first = seq.blocks[run[0][0]]
        if _is_pure(bindings[0]) and len(bindings) >= min_size:
            blocks.append(DataflowBlock(bindings, span=first.span))
        else:
            blocks += _as_before(seq.blocks, run)
    tidy = tidy_blocks(tuple(blocks))
    same = len(tidy) == len(seq.blocks) and all(map(_alike, tidy, seq.blocks))
    return seq if same else replace(seq, blocks=tidy)


def _runs(blocks: tuple[BindingBlock, ...]) -> Iterator[Run]:
    """Bindings that follow one another and are all pure, or not, each with its block's index."""
    bindings = ((index, b) for index, block in enumerate(blocks) for b in block.bindings)
    for _, run in groupby(bindings, key=lambda item: _is_pure(item[1])):
        yield list(run)


def _as_before(blocks: tuple[BindingBlock, ...], run: Run) -> Iterator[BindingBlock]:
    """The bindings of a run in blocks of the kind in which they are."""
    for index, part in groupby(run, key=lambda item: item[0]):
        yield replace(blocks[index], bindings=tuple(binding for _, binding in part))


def _is_pure(binding: Binding) -> bool:
    """Whether a binding may stand in a dataflow block."""
    match binding.value:
        case If():
            return False
        case Call() as call:
            return is_pure_call(call)
        case _:
            return True


def _alike(one: BindingBlock, other: BindingBlock) -> bool:
    """Whether two blocks are of one kind and hold the very same bindings."""
    same = len(one.bindings) == len(other.bindings)
    pairs = zip(one.bindings, other.bindings, strict=False)
    return type(one) is type(other) and same and all(a is b for a, b in pairs)
