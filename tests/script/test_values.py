"""The values of a script that are no operators, and calls of functions by name."""

from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from script_programs import MATRIX, function, names, round_trip, values

from relaxjax import Function, ShapeType, TensorType, TupleType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    const,
)
from relaxjax.script import from_source, lax, relax


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('R.const(1.5, "float32")', np.float32(1.5)),
        ("R.const(2)", np.int32(2)),
        ("R.const(2.5)", np.float32(2.5)),
        ("R.const(True)", np.bool_(True)),
        ('R.const([[1, 2], [3, 4]], "int64")', np.array([[1, 2], [3, 4]])),
        ('R.const("-inf", "float32")', np.float32(-np.inf)),
        ('R.const(float("inf"), "float16")', np.float16(np.inf)),
        ('R.const([1.0, float("-inf")], "float64")', np.array([1.0, -np.inf])),
        ('R.const(-1, "int8")', np.int8(-1)),
        ("R.const(3, T.int16)", np.int16(3)),
    ],
)
def test_a_constant(text: str, data: Any) -> None:
    (value,) = values(function(f"y = {text}\nreturn y"))
    assert value == Constant(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R.shape([2, 3])", ShapeExpr((2, 3))),
        ("R.shape((2, T.int64(3)))", ShapeExpr((2, 3))),
        ('R.str("a \\" b")', StringImm('a " b')),
        ('R.dtype("float32")', DataTypeImm("float32")),
        ("R.prim_value(3)", PrimExpr(3)),
        ("R.prim_value(2.5)", PrimExpr(2.5)),
        ("R.prim_value(True)", PrimExpr(True)),
        ("R.prim_value(R.prim_value(3))", PrimExpr(3)),
        ("R.prim_value(T.bool(1))", PrimExpr(True)),
        ('R.prim_value(T.float64("-inf"))', PrimExpr(float("-inf"))),
        ("T.int32(3)", PrimExpr(3, "int32")),
        ("T.int32(T.int16(3))", PrimExpr(3, "int32")),
        ('T.IntImm("int32", 3)', PrimExpr(3, "int32")),
        ('T.FloatImm("float32", 0.5)', PrimExpr(0.5, "float32")),
        ("R.shape(R.shape([2]))", ShapeExpr((2,))),
        ("R.tuple()", Tuple(())),
        ("()", Tuple(())),
        ('R.ExternFunc("g")', ExternFunc("g")),
    ],
)
def test_a_value(text: str, expected: Expr) -> None:
    (value,) = values(function(f"y = {text}\nreturn y"))
    assert value == expected


def test_numbers_become_constants_of_the_program() -> None:
    """A number alone on the right side is a constant tensor; among dimensions it is a dimension."""
    found = function("k = 5\nf = 2.5\nb = False\nreturn (k, f, b)")
    assert values(found) == [const(5, "int32"), const(2.5, "float32"), const(False, "bool")]


def test_a_number_declared_as_a_scalar_of_the_host() -> None:
    """It is bound as such, and shapes can still be made of it."""
    found = function(
        """
        n = T.int64()
        a: T.int64 = 3
        m: T.int64 = n + 1
        c: T.float32 = 0.5
        y = R.zeros((a, m), "float32")
        return (y, c)
        """,
        'x: R.Tensor(("n",), "float32")',
    )
    assert names(found) == ["a", "m", "c", "y"]
    assert [str(value) for value in values(found)[:3]] == [
        "R.prim_value(3)",
        "R.prim_value(n + 1)",
        "T.float32(0.5)",
    ]
    assert str(found.ret_ty) == 'R.Tuple(R.Tensor((3, n + 1), dtype="float32"), R.Prim("float32"))'


def test_a_dimension_may_have_a_name_without_a_binding() -> None:
    found = function(
        """
        n = T.int64()
        m = n * 2
        return R.zeros((m, m), "float32")
        """,
        'x: R.Tensor(("n",), "float32")',
    )
    assert str(found.ret_ty) == 'R.Tensor((n * 2, n * 2), dtype="float32")'
    assert names(found) == ["gv"]


def test_dimensions_as_scalars_of_the_host() -> None:
    found = function(
        """
        n = T.int64()
        a = T.int32(n)
        b = R.prim_value(T.int64(n) + 1)
        return (a, b, n)
        """,
        'x: R.Tensor(("n",), "float32")',
    )
    assert [str(value) for value in values(found)] == ["T.int32(n)", "R.prim_value(n + 1)"]
    assert str(found.body.body) == "(a, b, R.prim_value(n))"


def test_numbers_of_numpy() -> None:
    text = """
        @R.function
        def f():
            y = number
            return (y, number, R.call_pure_packed("g", number, "text"))
        """
    found = from_source(dedent(text), {"number": np.float32(0.5)})
    assert isinstance(found, Function)
    y, call = values(found)
    assert y == const(0.5, "float32")
    assert isinstance(call, Call)
    assert call.args == (PrimExpr(0.5), StringImm("text"))


def test_lists_and_texts_stay_values_of_python() -> None:
    found = function("""
        sizes = [2, 3]
        axes = (1, 0)
        kind = f"{'float'}{16 * 2}"
        return R.zeros((sizes[0], sizes[axes[0]]), kind)
        """)
    assert values(found) == [found.body.blocks[0].bindings[0].value]
    assert found.ret_ty == MATRIX


def test_calls_of_functions_from_outside() -> None:
    found = from_source(
        dedent("""
        @R.function(pure=False)
        def f(x: R.Tensor((2, 3), "float32")):
            a = R.call_packed("g", x, 1, (x, 2), ty_args=R.Tensor((2,)), mode="fast")
            b = R.call_packed("g", x, sinfo_args=[R.Tensor, R.Shape])
            c = R.call_pure_packed("g", x, out_sinfo=R.Tensor)
            d = R.call_pure_packed("g", x, out_ty=(R.Tensor,))
            h = R.call_py_func("g", x, out_ty=R.Tensor)
            i = R.call_inplace_packed("g", x, inplace_indices=[0], ty_args=R.Tensor)
            e = R.ExternFunc("g", R.Callable((R.Tensor,), R.Shape, False))(x)
            return a
        """)
    )
    assert isinstance(found, Function)
    round_trip(found)
    a, b, c, d, h, i, e = values(found)
    assert [value.ty for value in (a, b, c, d, h, i, e)] == [
        TensorType((2,)),
        TupleType((TensorType(), ShapeType())),
        TensorType(),
        TensorType(),
        TensorType(),
        TensorType(),
        ShapeType(),
    ]
    assert isinstance(a, Call)
    assert a.attrs == Attrs(mode="fast")
    assert a.args == (found.params[0], PrimExpr(1), Tuple((found.params[0], PrimExpr(2))))


def test_calls_of_parameters_and_their_results() -> None:
    found = function(
        "return f(x)(x)",
        'x: R.Tensor((2,), "float32"), '
        "f: R.Callable((R.Tensor,), R.Callable((R.Tensor,), R.Tensor(ndim=1)))",
    )
    assert found.ret_ty == TensorType(None, None, 1)


def test_a_number_of_the_host_keeps_its_kind() -> None:
    """`T.int64(3)` is no tensor, and counts as a number beside others."""
    found = function(
        """
        a = T.int64(3)
        b = R.reshape(x, R.shape([T.int64(3) * 2]))
        c = T.float64(-T.float64(1.5))
        return (a, b, c)
        """,
        'x: R.Tensor((2, 3), "float32")',
    )
    first, _, last = values(found)
    assert (first, last) == (PrimExpr(3), PrimExpr(-1.5))


def test_names_can_be_completed() -> None:
    assert {"add", "nn", "image", "Tensor", "function"} <= set(dir(relax))
    assert {"relu", "conv2d"} <= set(dir(relax.nn))
    assert "nn.relu" not in dir(relax)
    assert {"dot_general", "sin"} <= set(dir(lax))
