"""Types, expressions and attributes print on one line, as they would be written."""

from typing import Any

import numpy as np
import pytest

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import SymbolicVar, dim_max
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataflowVar,
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
)
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.node import Node
from relaxjax.ir.op import Op, Param
from relaxjax.ir.types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from relaxjax.ops.binary import add

VECTOR = TensorType((3,), "float32")
NOTHING = TupleType(())
N = SymbolicVar("n")


def fake_op(name: str) -> Op:
    """An operator that stands in no table: printing needs no more than its name."""
    return Op(name, (Param("x", True, lambda x: x),), lambda call: VECTOR)


@pytest.mark.parametrize(
    ("ty", "text"),
    [
        (ObjectType(), "R.Object"),
        (PrimType("int64"), 'R.Prim("int64")'),
        (ShapeType(), "R.Shape"),
        (ShapeType(ndim=2), "R.Shape(ndim=2)"),
        (ShapeType((N, 3)), "R.Shape([n, 3])"),
        (ShapeType(()), "R.Shape([])"),
        (TensorType(), "R.Tensor"),
        (TensorType((), "bool"), 'R.Tensor((), dtype="bool")'),
        (TensorType((2,)), "R.Tensor((2,))"),
        (TensorType((N * 2 + 1, N // 4)), "R.Tensor((n * 2 + 1, n // 4))"),
        (TensorType((dim_max(N, 4),), "int8"), 'R.Tensor((T.max(4, n),), dtype="int8")'),
        (TensorType(dtype="float32"), 'R.Tensor(dtype="float32")'),
        (TensorType(dtype="float32", ndim=2), 'R.Tensor(dtype="float32", ndim=2)'),
        (TensorType(Var("s", ShapeType(ndim=2)), "float32"), 'R.Tensor(s, dtype="float32")'),
        (
            TensorType((2,), "float32", vdevice="cuda:1"),
            'R.Tensor((2,), dtype="float32", vdevice="cuda:1:global")',
        ),
        (NOTHING, "R.Tuple()"),
        (TupleType((VECTOR, NOTHING)), 'R.Tuple(R.Tensor((3,), dtype="float32"), R.Tuple())'),
        (FuncType(), "R.Callable(purity=True)"),
        (FuncType(ret=NOTHING, pure=False), "R.Callable(ret=R.Tuple(), purity=False)"),
        (FuncType((), NOTHING), "R.Callable((), R.Tuple(), True)"),
        (FuncType((NOTHING,), pure=False), "R.Callable((R.Tuple(),), R.Object, False)"),
    ],
)
def test_a_type(ty: Type, text: str) -> None:
    assert str(ty) == repr(ty) == text


X = Var("x", VECTOR)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (X, "x"),
        (DataflowVar("lv", VECTOR), "lv"),
        (GlobalVar("f"), "f"),
        (Tuple(()), "R.tuple()"),
        (Tuple((X,)), "(x,)"),
        (Tuple((X, Tuple((X, X)))), "(x, (x, x))"),
        (TupleGetItem(Tuple((X,)), 0), "R.TupleGetItem((x,), 0)"),
        (ShapeExpr((2, N)), "R.shape([2, n])"),
        (StringImm('a"b'), 'R.str("a\\"b")'),
        (DataTypeImm("float32"), 'R.dtype("float32")'),
        (PrimExpr(3), "R.prim_value(3)"),
        (PrimExpr(N * 2), "R.prim_value(n * 2)"),
        (PrimExpr(True), "R.prim_value(True)"),
        (PrimExpr(float("inf")), 'R.prim_value(float("inf"))'),
        (PrimExpr(3, "int32"), "T.int32(3)"),
        (PrimExpr(0.5, "float32"), "T.float32(0.5)"),
        (const(1.5), 'R.const(1.5, "float32")'),
        (const(0.1, "float64"), 'R.const(0.1, "float64")'),
        (const(float("-inf"), "bfloat16"), 'R.const(float("-inf"), "bfloat16")'),
        (const([[1, 2]], "int4"), 'R.const([[1, 2]], "int4")'),
        (const(True), 'R.const(True, "bool")'),
        (Constant(np.zeros(20)), 'metadata["ir.GenericConst"][0]'),
        (ExternFunc("f"), 'R.ExternFunc("f")'),
        (
            ExternFunc("f", ty=FuncType((VECTOR,), NOTHING)),
            'R.ExternFunc("f", R.Callable((R.Tensor((3,), dtype="float32"),), R.Tuple(), True))',
        ),
        (Call(GlobalVar("f"), (X,)), "cls.f(x)"),
        (Call(Var("g"), (X, X)), "g(x, x)"),
        (Call(ExternFunc("f"), (X,)), 'R.call_packed("f", x)'),
        (
            Call(ExternFunc("f"), (X,), ty_args=(VECTOR,)),
            'R.call_packed("f", x, ty_args=(R.Tensor((3,), dtype="float32"),))',
        ),
        (
            Call(ExternFunc("f", ty=FuncType()), (X,), ty_args=(NOTHING, NOTHING)),
            'R.call_pure_packed("f", x, ty_args=(R.Tuple(), R.Tuple()))',
        ),
        (
            Call(ExternFunc("f", ty=FuncType((), NOTHING))),
            'R.ExternFunc("f", R.Callable((), R.Tuple(), True))()',
        ),
        (
            Call(fake_op("relax.call_pure_packed"), (ExternFunc("f"), X)),
            'R.call_pure_packed("f", x)',
        ),
        (add, "relax.add"),
        (Call(fake_op("relax.nn.relu"), (X,)), "R.nn.relu(x)"),
        (Call(fake_op("lax.dot_general"), (X,)), "L.dot_general(x)"),
        (Call(fake_op("mine.f"), (X,), Attrs(k=1)), 'I.Op("mine.f")(x, k=1)'),
    ],
    ids=str,
)
def test_an_expression(expr: Expr, text: str) -> None:
    assert str(expr) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (1e-5, "1e-05"),
        (float("nan"), 'float("nan")'),
        ("float32", '"float32"'),
        ((), "[]"),
        ([1, (2, "a")], '[1, [2, "a"]]'),
        ({"a": 1, "b-c": {}}, '{"a": 1, "b-c": {}}'),
        (N + 1, "n + 1"),
        (VECTOR, 'R.Tensor((3,), dtype="float32")'),
        (const(1), 'R.const(1, "int32")'),
        (add, "R.add"),
        (1 + 2j, "complex(1.0, 2.0)"),
    ],
    ids=str,
)
def test_an_attribute(value: Any, text: str) -> None:
    call = Call(fake_op("relax.f"), (X,), Attrs(a=value))
    assert str(call) == f"R.f(x, a={text})"


def test_an_argument_behind_an_attribute_goes_by_its_name() -> None:
    """What is written by position is read by position."""
    params = [Param(name, name != "axis", lambda x: x) for name in ("x", "axis", "indices", "more")]
    operator = Op("relax.f", tuple(params), lambda call: VECTOR)
    assert str(Call(operator, (X,), Attrs(axis=1))) == "R.f(x, axis=1)"
    assert str(Call(operator, (X, X), Attrs(axis=1))) == "R.f(x, indices=x, axis=1)"
    many = Op("lax.f", (Param("args", True, tuple, variadic=True),), lambda call: VECTOR)
    assert str(Call(many, (X, X))) == "L.f(x, x)"


def test_a_function_that_is_called_where_it_stands() -> None:
    """No script can say it, but the text of the call is there for whoever looks for the fault."""
    identity = Function((X,), SeqExpr((), X), VECTOR)
    assert str(Call(identity, (X,))) == "<Function>(x)"


def test_a_node_of_a_class_that_has_no_script_prints_its_class() -> None:
    class Strange(Node):
        __slots__ = ()

    assert str(Strange()) == "<Strange>"


def test_a_node_of_a_derived_class_prints_as_its_base() -> None:
    class LocalOp(Op):
        __slots__ = ()

    operator = LocalOp("lax.mine", (), lambda call: VECTOR)
    assert str(Call(operator, (X,))) == "L.mine(x)"
    assert str(operator) == "lax.mine"
