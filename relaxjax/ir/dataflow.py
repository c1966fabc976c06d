"""Dataflow blocks as ordinary ones."""

from collections.abc import Callable

from .blocks import tidy_blocks
from .expr import DataflowVar, Expr, Var
from .function import BindingBlock, DataflowBlock, Function, SeqExpr
from .node import replace
from .renew import with_vars
from .walk import kept, nested_sequences, rewrite


def without_dataflow(
    function: Function, chosen: Callable[[DataflowBlock], bool] = lambda block: True
) -> Function:
    """`function` with ordinary blocks in the place of chosen dataflow blocks, by default of all.

    What only such a block could see becomes an ordinary variable.
    """
    blocks = [block for seq in nested_sequences(function) for block in seq.blocks]
    ending = [block for block in blocks if isinstance(block, DataflowBlock) and chosen(block)]
    bound = [binding.var for block in ending for binding in block.bindings]
    hidden = [var for var in bound if isinstance(var, DataflowVar)]
    visible: dict[Var, Var] = {var: Var(var.name, var.ty, span=var.span) for var in hidden}
    first = {id(block.bindings[0].var) for block in ending if block.bindings}

    def rule(expr: Expr) -> Expr:
        if not isinstance(expr, SeqExpr):
            return expr
        plain = kept(expr.blocks, (_plain(block, first) for block in expr.blocks))
        return expr if plain is expr.blocks else replace(expr, blocks=tidy_blocks(plain))

    plain = with_vars(rewrite(function, rule), visible)
    assert isinstance(plain, Function)
    return plain


def _plain(block: BindingBlock, first: set[int]) -> BindingBlock:
    """The block as an ordinary one, where its first variable is among `first`, or it is empty."""
    if not isinstance(block, DataflowBlock):
        return block
    if block.bindings and id(block.bindings[0].var) not in first:
        return block
    return BindingBlock(block.bindings, span=block.span)
