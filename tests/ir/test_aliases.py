"""The names up to TVM 0.25 are the very classes of today."""

from typing import Any

import pytest

from relaxjax.ir import IRModule, aliases, expr, function, op, types


def test_the_old_names_are_the_new_classes() -> None:
    assert aliases.TensorStructInfo is types.TensorType
    assert aliases.ShapeStructInfo is types.ShapeType
    assert aliases.TupleStructInfo is types.TupleType
    assert aliases.FuncStructInfo is types.FuncType
    assert aliases.PrimStructInfo is types.PrimType
    assert aliases.ObjectStructInfo is types.ObjectType
    assert aliases.AnyType is types.ObjectType
    assert aliases.StructInfo is types.Type
    assert aliases.PrimValue is expr.PrimExpr


def test_every_alias_is_listed() -> None:
    public = {name for name in vars(aliases) if not name.startswith("_")}
    assert public == set(aliases.__all__)


def test_old_attribute_names() -> None:
    ty = types.TensorType((2,), "float32")
    var = expr.Var("x", ty)
    assert var.name_hint == "x"
    assert var.struct_info is ty
    assert var.checked_type is ty
    assert isinstance(ty.shape, types.Sizes)
    assert ty.shape.values == (2,)
    assert expr.GlobalVar("f").name_hint == "f"
    assert expr.Call(expr.ExternFunc("f"), (var,), ty_args=(ty,)).sinfo_args == (ty,)


def test_arguments_by_the_names_of_tvm() -> None:
    anything = types.ObjectType()
    function_type: Any = types.FuncType
    assert function_type((), anything, purity=False) == types.FuncType((), anything, False)
    make_function: Any = function.Function
    assert make_function((), expr.const(1.0), is_pure=False).pure is False
    assert types.FuncType.opaque_func() == types.FuncType(None, anything, False)
    told = types.FuncType.opaque_func(ret=types.ShapeType(), purity=True)
    assert told == types.FuncType(None, types.ShapeType(), True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'purely'"):
        function_type(purely=True)


def test_identity_as_tvm_asks_for_it() -> None:
    var = expr.Var("x")
    assert var.same_as(var)
    assert not var.same_as(expr.Var("x"))


def test_options_of_printing_that_only_tvm_has() -> None:
    value = expr.const(1.0)
    assert str(value.script(verbose_expr=True, black_format=True)) == str(value)


def test_records_of_a_module_are_changed_in_place() -> None:
    mod = IRModule({}, global_infos={"a": [1]})
    mod.update_global_info("b", [2, 3])
    assert dict(mod.global_infos) == {"a": (1,), "b": (2, 3)}


def test_operators_have_attributes_once_tvm_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op, "TVM_ATTRIBUTES", {})
    with pytest.raises(ValueError, match=r"`FPurity`; there are none, until `relaxjax.tvm` is imp"):
        op.get_op("relax.add").get_attr("FPurity")
