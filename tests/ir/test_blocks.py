"""The tidy form of blocks."""

import pytest

from relaxjax.ir import BindingBlock, DataflowBlock, Span, Var, VarBinding, const
from relaxjax.ir.blocks import tidy_blocks

A, B, C = (VarBinding(Var(name), const(1)) for name in "abc")


def test_tidy_blocks_stay_the_same_object() -> None:
    blocks = (DataflowBlock((A,)), BindingBlock((B,)), DataflowBlock((C,)))
    assert tidy_blocks(blocks) is blocks
    assert tidy_blocks(()) == ()


def test_empty_blocks_go() -> None:
    block = BindingBlock((A,))
    assert tidy_blocks((DataflowBlock(()), block, BindingBlock(()))) == (block,)


@pytest.mark.parametrize("kind", [BindingBlock, DataflowBlock])
def test_neighbours_of_one_kind_are_joined(kind: type[BindingBlock]) -> None:
    first = kind((A,), span=Span("model.py", 3))
    (joined,) = tidy_blocks((first, kind((B, C))))
    assert type(joined) is kind
    assert joined.bindings == (A, B, C)
    assert joined.span == Span("model.py", 3)


def test_what_stands_on_both_sides_of_an_empty_dataflow_block_is_joined() -> None:
    (joined,) = tidy_blocks((BindingBlock((A,)), DataflowBlock(()), BindingBlock((B,))))
    assert joined.bindings == (A, B)


def test_blocks_of_two_kinds_are_not_joined() -> None:
    dataflow, block = DataflowBlock((A,)), BindingBlock((B,))
    assert tidy_blocks((dataflow, block, BindingBlock((C,))))[0] is dataflow
