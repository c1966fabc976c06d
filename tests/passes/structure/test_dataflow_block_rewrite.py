"""Rewriting a dataflow block step by step."""

import pytest
from parsing import parse_functions

from relaxjax.ir import IRModule, Var, VarBinding, assert_structural_equal, well_formed
from relaxjax.ir.op import get_op
from relaxjax.passes import DataflowBlockRewrite

TEXT = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    with R.dataflow():
        a = R.exp(x)
        b = R.sin(a)
        unused = R.cos(x)
        R.output(b)
    return b
"""


def opened() -> tuple[IRModule, DataflowBlockRewrite, dict[str, Var]]:
    module = parse_functions(TEXT)
    function = module["main"]
    (block,) = function.body.blocks
    names = {binding.var.name: binding.var for binding in block.bindings}
    return module, DataflowBlockRewrite(block, function), names | {"x": function.params[0]}


def names(rewriter: DataflowBlockRewrite) -> list[str]:
    (block,) = rewriter.mutated_root_fn().body.blocks
    assert block is rewriter.mutated_dfb()
    return [binding.var.name for binding in block.bindings]


def test_bindings_are_added_at_the_end() -> None:
    module, rewriter, known = opened()
    exp = get_op("relax.exp")
    rewriter.add(exp(known["b"]))
    rewriter.add(exp(exp(known["x"])), is_dfvar=True)
    rewriter.add(exp(known["x"]), name="b")
    rewriter.add_binding(VarBinding(Var("last", known["x"].ty), exp(known["a"])))
    assert names(rewriter) == ["a", "b", "unused", "tmp0", "lv", "tmp1", "b1", "last"]
    well_formed(rewriter.mutated_root_fn())
    rewritten = rewriter.mutate_irmodule(module)
    assert rewritten["main"] is rewriter.mutated_root_fn()
    assert_structural_equal(module, parse_functions(TEXT))


def test_one_variable_is_used_instead_of_another() -> None:
    _, rewriter, known = opened()
    rewriter.replace_all_uses(known["a"], known["x"])
    assert "R.sin(x)" in str(rewriter.mutated_root_fn())
    rewriter.remove_unused(known["a"])
    assert names(rewriter) == ["b", "unused"]


def test_what_nothing_uses_is_removed() -> None:
    _, rewriter, known = opened()
    rewriter.remove_unused(known["unused"])
    assert names(rewriter) == ["a", "b"]
    rewriter.remove_unused(known["unused"], allow_undef=True)
    with pytest.raises(ValueError, match="the dataflow block binds no variable `unused`"):
        rewriter.remove_unused(known["unused"])
    with pytest.raises(ValueError, match="`a` is still used: it cannot be removed"):
        rewriter.remove_unused(known["a"])


def test_everything_unused_is_removed() -> None:
    _, rewriter, known = opened()
    rewriter.replace_all_uses(known["a"], known["x"])
    rewriter.remove_all_unused()
    assert names(rewriter) == ["b"]
    rewriter.replace_all_uses(known["b"], known["x"])
    rewriter.remove_all_unused()
    assert rewriter.mutated_dfb().bindings == ()
    assert rewriter.mutated_root_fn().body.blocks == ()


def test_blocks_and_functions_that_do_not_belong_together() -> None:
    module, rewriter, _ = opened()
    other = parse_functions(TEXT)
    with pytest.raises(ValueError, match="the dataflow block is no block of the function"):
        DataflowBlockRewrite(rewriter.mutated_dfb(), other["main"])
    with pytest.raises(ValueError, match="is none of the module's"):
        rewriter.mutate_irmodule(other)
    assert rewriter.mutate_irmodule(module) is module
