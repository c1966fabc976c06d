"""The names up to TVM 0.25 are the very classes of today."""

from relaxjax.ir import aliases, expr, types


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
    assert expr.GlobalVar("f").name_hint == "f"
    assert expr.Call(expr.ExternFunc("f"), (var,), ty_args=(ty,)).sinfo_args == (ty,)
