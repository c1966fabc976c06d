"""Saving and loading: what comes back is what was saved."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from full import how_many
from hypothesis import given, settings
from strategies import dim_of, formulas, modules

from relaxjax import FuncType, IRModule, ObjectType, PrimType, ShapeType, TensorType, TupleType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.check import faults
from relaxjax.ir.device_mesh import DeviceMesh, Placement
from relaxjax.ir.dims import SymbolicVar, dim_max
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    const,
    np_dtype,
)
from relaxjax.ir.function import BindingBlock, Function, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.global_info import DummyGlobalInfo, VDevice
from relaxjax.ir.node import Node, replace
from relaxjax.ir.op import get_op
from relaxjax.ir.serialize import MAX_DEPTH, load_json, save_json
from relaxjax.ir.span import Span
from relaxjax.ir.structural import assert_structural_equal, structural_equal, structural_hash

N, M = SymbolicVar("n"), SymbolicVar("m")
TY = TensorType((N, 2), "float32")
X = Var("x", TY)


def loaded(node: Node, **options: Any) -> Any:
    return load_json(save_json(node, **options))


# Round trips


@given(modules())
@settings(max_examples=how_many(40, 1000))
def test_modules_come_back(module: IRModule) -> None:
    again = loaded(module)
    assert_structural_equal(again, module)
    assert faults(again) == []
    assert str(again) == str(module)
    assert save_json(again) == save_json(module)


@pytest.mark.parametrize(
    "node",
    [
        Call(
            get_op("relax.add"), (X, X), Attrs(axis=1), (TY,), ty=TY, span=Span("m.py", 1, 2, 3, 4)
        ),
        Call(GlobalVar("f", ty=FuncType((TY,), TY, False)), (X,)),
        ExternFunc("f", Attrs(a=1), ty=FuncType((), ObjectType())),
        Tuple((PrimExpr(N * M), PrimExpr(True), PrimExpr(1.5), PrimExpr(float("nan")))),
        TupleGetItem(Var("any", ObjectType()), 3, ty=TY),
        Tuple((StringImm("text\n\u00e9\U0001f600"), DataTypeImm("float16"), PrimExpr(1, "int32"))),
        ShapeExpr((N, dim_max(N, M * 2) // 3 + 1)),
        TupleType((ShapeType(None, 3), PrimType("int64"), TensorType(None, None, 2, "cpu"))),
        TensorType(Var("s", ShapeType((N,))), "float32"),
        Function((X,), SeqExpr((), X), TY, False, Attrs(note=(1, (2.5, "a")))),
        IRModule({"e": ExternFunc("e")}, {"a": None}, {"infos": ["llvm", 1, {"b": [True]}]}),
        IRModule({}, {}, {"vdevice": [VDevice("cpu"), VDevice({"kind": "cuda"}, 1, "vtcm")]}),
        IRModule({}, {}, {"dummy": [DummyGlobalInfo()]}),
        Var("untyped"),
    ],
    ids=lambda node: type(node).__name__,
)
def test_nodes_come_back(node: Node) -> None:
    again = loaded(node)
    assert type(again) is type(node)
    assert_structural_equal(again, node, map_free_vars=True)
    assert structural_hash(again) == structural_hash(node)
    assert again.span == node.span
    if isinstance(node, Expr):
        assert isinstance(again, Expr)
        assert structural_equal(again.ty, node.ty, map_free_vars=True)


def test_attributes_of_all_kinds_come_back() -> None:
    attrs = Attrs(
        numbers=(1, 1.0, True, -0.0, float("inf"), float("-inf"), float("nan"), 10**30, 1j),
        nothing=None,
        deep={"tuple": ((), ((1,),)), "empty": {}},
        nodes=(const([1, 2]), TY, N * 2, GlobalVar("f")),
    )
    again = loaded(Tuple((X, Call(GlobalVar("f"), (X,), attrs)))).fields[1].attrs
    assert structural_equal(again, attrs, map_free_vars=True)
    assert again["numbers"][:4] == (1, 1.0, True, -0.0)
    assert type(again["numbers"][1]) is float


@given(formulas())
@settings(max_examples=50)
def test_dimensions_come_back_canonical(formula: Any) -> None:
    symbols = {name: SymbolicVar(name) for name in "abc"}
    try:
        dim = dim_of(formula, symbols)
    except ZeroDivisionError:
        return
    # In the document the variables stand in another order than they were made in.
    shape = ShapeExpr((*(symbols[name] for name in "cba"), dim))
    *again, result = loaded(shape).values
    assert result == dim_of(formula, dict(zip("cba", again, strict=True)))


DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4"),
    *(name for name in dir(ml_dtypes) if name.startswith(("float8", "float4", "float6"))),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_of_every_dtype_come_back(dtype: str) -> None:
    constant = Constant(np.arange(6).reshape(2, 3).astype(np_dtype(dtype)))
    assert loaded(constant) == constant
    assert loaded(constant).dtype == dtype


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_constants_of_odd_shapes_come_back(shape: tuple[int, ...]) -> None:
    constant = Constant(np.full(shape, np.nan, "float32"))
    assert loaded(constant) == constant


def test_variables_keep_their_identity() -> None:
    first, second = loaded(Tuple((X, X))).fields
    assert first is second
    assert first.ty.dims[0] is not N
    twins = loaded(Tuple((Var("x", TY), Var("x", TY)))).fields
    assert twins[0] is not twins[1]
    assert twins[0].ty is twins[1].ty


def test_what_is_shared_is_written_once() -> None:
    deep: Expr = X
    for _ in range(20):
        deep = Tuple((deep, deep))
    assert len(save_json(deep).splitlines()) < 30
    again = loaded(deep)
    assert again.fields[0] is again.fields[1]


def test_a_document_can_leave_out_the_places() -> None:
    node = replace(const(1.0), span=Span("<notebook cell>", 3))
    assert loaded(node).span == node.span
    assert loaded(node, spans=False).span is None


def test_places_in_files_that_are_no_source_are_forgotten() -> None:
    """Error messages read the line they point to, and a document must not say which file."""
    for file in ("/dev/zero", "secret.txt", "<x", "x>"):
        assert loaded(replace(const(1.0), span=Span(file, 3))).span is None


def test_a_wide_function_comes_back() -> None:
    body: list[Expr] = [Call(GlobalVar("f"), (X,)) for _ in range(3000)]
    assert len(loaded(Tuple(tuple(body))).fields) == 3000


# What cannot be saved


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (FuncType(derive=lambda call: ObjectType()), "a FuncType with a `derive` function cannot"),
        (Call(X, (), Attrs(a=object())), "a value of type object cannot be saved: `<object"),
        (Call(X, (), Attrs(a=(object(),))), "a value of type object cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_an_error(node: Node, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        save_json(node)


def test_a_node_of_another_kind_is_an_error() -> None:
    class Other(Node):
        __slots__ = ()

    with pytest.raises(TypeError, match="a node of type Other cannot be saved"):
        save_json(Other())


def deep_tuple(depth: int) -> Expr:
    deep: Expr = X
    for _ in range(depth):
        deep = Tuple((deep,), ty=ObjectType())
    return deep


def test_what_is_nested_too_deeply_can_be_neither_saved_nor_loaded() -> None:
    assert isinstance(loaded(deep_tuple(MAX_DEPTH - 10)), Tuple)
    with pytest.raises(ValueError, match=f"it is nested more than {MAX_DEPTH} nodes deep"):
        save_json(deep_tuple(MAX_DEPTH + 1))
    nested: Any = ()
    for _ in range(40):
        nested = (nested,)
    with pytest.raises(ValueError, match="an attribute is nested more than 32 deep"):
        save_json(Call(X, (), Attrs(a=nested)))


def test_what_is_as_deep_as_may_be_can_be_walked() -> None:
    again = loaded(deep_tuple(MAX_DEPTH - 10))
    assert structural_equal(again, again)
    assert structural_hash(again) == structural_hash(again)
    assert str(again)


def test_what_a_binding_is_derived_from_comes_back() -> None:
    y = Var("y", TY)
    binding = VarBinding(y, X, derived_from="x")
    block = BindingBlock((binding, MatchCast(Var("z", TY), y, TY, derived_from="w")))
    (again,) = loaded(SeqExpr((block,), y)).blocks
    assert [one.derived_from for one in again.bindings] == ["x", "w"]


def test_equal_types_are_saved_once() -> None:
    twice = Tuple((Var("a", TensorType((2,), "float32")), Var("b", TensorType((2,), "float32"))))
    assert save_json(twice).count('"TensorType"') == 1
    assert [field.ty for field in loaded(twice).fields] == [TensorType((2,), "float32")] * 2


def test_types_that_differ_in_what_no_comparison_counts_are_saved_apart() -> None:
    placed = TensorType((2,), "float32", placement=Placement(DeviceMesh((2,), (0, 1)), (0,)))
    spanned = TensorType((2,), "float32", span=Span("model.py", 3))
    types = TensorType((2,), "float32"), placed, spanned
    again = loaded(TupleType(types)).fields
    assert [(ty.placement, ty.span) for ty in again] == [(ty.placement, ty.span) for ty in types]
