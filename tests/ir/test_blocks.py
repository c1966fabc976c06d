"""The tidy form of blocks."""

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.expr import Var, const
from relaxjax.ir.function import BindingBlock, DataflowBlock, VarBinding
from relaxjax.ir.span import Span

A, B, C = (VarBinding(Var(name), const(1)) for name in "abc")


def test_tidy_blocks_stay_the_same_object() -> None:
    blocks = (BindingBlock((A,)), DataflowBlock((B,)), DataflowBlock((C,)))
    assert tidy_blocks(blocks) is blocks
    assert tidy_blocks(()) == ()


def test_empty_blocks_go() -> None:
    block = BindingBlock((A,))
    assert tidy_blocks((DataflowBlock(()), block, BindingBlock(()))) == (block,)


def test_neighbours_are_joined() -> None:
    first = BindingBlock((A,), span=Span("model.py", 3))
    (joined,) = tidy_blocks((first, BindingBlock((B, C))))
    assert joined.bindings == (A, B, C)
    assert joined.span == Span("model.py", 3)


def test_what_stands_on_both_sides_of_an_empty_dataflow_block_is_joined() -> None:
    (joined,) = tidy_blocks((BindingBlock((A,)), DataflowBlock(()), BindingBlock((B,))))
    assert joined.bindings == (A, B)


def test_dataflow_blocks_are_not_joined() -> None:
    dataflow, block = DataflowBlock((A,)), BindingBlock((B,))
    assert tidy_blocks((dataflow, block, BindingBlock((C,))))[0] is dataflow
