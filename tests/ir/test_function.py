"""Functions: their types, and changes of their attributes."""

import pytest

from relaxjax import FuncType, GlobalVar, IRModule, ObjectType, TensorType, Var
from relaxjax.dpl import FunctionPattern, is_op, wildcard
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.check import well_formed
from relaxjax.ir.function import BindingBlock, DataflowBlock, Function, If, SeqExpr, VarBinding
from relaxjax.passes import Normalize

TY = TensorType((2,), "float32")
X, Y = Var("x", TY), Var("y", TY)
F = Function((X,), SeqExpr((), X), TY)


def test_the_type_of_a_function_is_its_signature() -> None:
    assert F.ty == FuncType((TY,), TY)
    assert Function((X, Var("any")), F.body, pure=False).ty == FuncType(
        (TY, ObjectType()), ObjectType(), False
    )
    assert F.ret_struct_info is TY
    assert F.is_pure


def test_attributes_are_changed_in_a_copy() -> None:
    named = F.with_attr("global_symbol", "f")
    assert F.global_symbol is None
    assert named.global_symbol == "f"
    assert named.with_attrs({"a": [1]}).attrs == Attrs(global_symbol="f", a=(1,))
    assert named.without_attr("global_symbol").attrs == Attrs()
    assert named.body is F.body


def test_a_change_that_changes_nothing_gives_the_very_function() -> None:
    named = F.with_attr("global_symbol", "f")
    assert named.with_attr("global_symbol", "f") is named
    assert named.with_attrs({}) is named
    assert named.without_attr("other") is named


def test_functions_are_identities() -> None:
    assert Function((X,), F.body, TY) != F
    assert F in {F}


def test_kinds_of_blocks_are_different() -> None:
    bindings = (VarBinding(Y, X),)
    assert BindingBlock(bindings) == BindingBlock(list(bindings))  # type: ignore[arg-type]  # frozen
    assert DataflowBlock(bindings) != BindingBlock(bindings)
    assert hash(DataflowBlock(bindings)) == hash(DataflowBlock(bindings))


def test_functions_print_as_scripts() -> None:
    assert "def main(x: R.Tensor((2,)" in F.script()
    assert "@R.function" in F.script()
    with pytest.raises(TypeError, match="there is no print option `colour`"):
        F.script(colour=True)  # type: ignore[call-arg]  # the mistake under test


def test_a_body_that_is_an_expression_alone_is_the_result_of_a_sequence() -> None:
    x = Var("x", TensorType((2,), "float32"))
    flag = Var("flag", TensorType((), "bool"))
    total = x + x
    function = Function((x,), total, total.ty)  # type: ignore[arg-type]  # what is tested
    assert function.body == SeqExpr((), total)
    choice = If(flag, total, x)  # type: ignore[arg-type]  # what is tested
    assert (choice.true_branch, choice.false_branch) == (SeqExpr((), total), SeqExpr((), x))
    twice = is_op("relax.add")(wildcard(), wildcard())
    assert FunctionPattern((wildcard(),), twice).match(function)
    normal = Normalize()(IRModule({"main": function}))
    well_formed(normal)
    match = "the body of a function must be an expression, found `None`"
    with pytest.raises(TypeError, match=match):
        Function((x,), None)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match="a branch must be an expression, found `2`"):
        If(flag, x, 2)  # type: ignore[arg-type]  # what is tested


def test_functions_and_their_names_are_there_for_python() -> None:
    assert bool(F)
    assert bool(GlobalVar("f"))
    with pytest.raises(TypeError, match="`x` is true or false only when the program runs"):
        bool(X)
