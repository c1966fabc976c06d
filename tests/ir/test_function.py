"""Functions: their types, and changes of their attributes."""

import pytest

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Var
from relaxjax.ir.function import BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.types import FuncType, ObjectType, TensorType

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
        F.script(colour=True)
