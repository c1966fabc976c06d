"""Dataflow blocks as ordinary ones."""

from collections.abc import Callable

from .blocks import tidy_blocks
from .expr import DataflowVar, Var
from .function import BindingBlock, DataflowBlock, Function, SeqExpr
from .node import replace
from .renew import with_vars
from .walk import dataflow_blocks, kept, map_sequences


def without_dataflow(
    function: Function, chosen: Callable[[DataflowBlock], bool] = lambda block: True
) -> Function:
    """`function` with ordinary blocks in the place of chosen dataflow blocks, by default of all.

    What only such a block could see becomes an ordinary variable.
    """
    ending = [block for block in dataflow_blocks(function) if chosen(block)]
    bound = [binding.var for block in ending for binding in block.bindings]
    hidden = [var for var in bound if isinstance(var, DataflowVar)]
    visible: dict[Var, Var] = {var: Var(var.name, var.ty, span=var.span) for var in hidden}
    first = {id(block.bindings[0].var) for block in ending if block.bindings}

    def change(seq: SeqExpr) -> SeqExpr:
        plain = kept(seq.blocks, (_plain(block, first) for block in seq.blocks))
        return seq if plain is seq.blocks else replace(seq, blocks=tidy_blocks(plain))

    return with_vars(map_sequences(function, change), visible)


def _plain(block: BindingBlock, first: set[int]) -> BindingBlock:
    """The block as an ordinary one, where its first variable is among `first`, or it is empty."""
    if not isinstance(block, DataflowBlock):
        return block
    if block.bindings and id(block.bindings[0].var) not in first:
        return block
    return BindingBlock(block.bindings, span=block.span)
