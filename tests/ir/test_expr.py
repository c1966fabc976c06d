"""Expressions: identity, content, derived types, constants."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax import FuncType, IRModule, ObjectType, PrimType, ShapeType, TensorType, TupleType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import SymbolicVar
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
    np_dtype,
)
from relaxjax.ir.function import BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.node import Node, replace
from relaxjax.ir.op import get_op
from relaxjax.ir.span import Span
from relaxjax.ir.tuples import as_tuple

N = SymbolicVar("n")
TY = TensorType((N, 2), "float32")
X, Y = Var("x", TY), DataflowVar("y", TY)
PAIR = Var("pair", TupleType((TY, PrimType("int64"))))
BODY = SeqExpr((BindingBlock((VarBinding(Y, X),)),), Y)
FUNCTION = Function((X,), BODY, TY)


def nodes() -> dict[str, Node]:
    """One node of every kind, made anew."""
    made: list[Node] = [
        X,
        Y,
        GlobalVar("f"),
        ExternFunc("f", Attrs(a=1)),
        get_op("relax.add"),
        Call(GlobalVar("f"), (X,), Attrs(a=1), (TY,)),
        Tuple((X, Y)),
        TupleGetItem(PAIR, 1),
        const([1.0, 2.0]),
        ShapeExpr((N, 2)),
        PrimExpr(N),
        StringImm("s"),
        DataTypeImm("float32"),
        SeqExpr(BODY.blocks, BODY.body),
        If(X, BODY, BODY),
        FUNCTION,
        VarBinding(Y, X),
        MatchCast(Y, X, TY),
        BindingBlock(BODY.blocks[0].bindings),
        IRModule({"f": FUNCTION}),
    ]
    return {type(node).__name__: node for node in made}


IDENTITIES = ("Var", "DataflowVar", "Op", "Function", "IRModule")


@pytest.mark.parametrize("kind", nodes())
def test_every_kind_is_hashable_and_compares_by_content_or_identity(kind: str) -> None:
    node, again = nodes()[kind], nodes()[kind]
    if kind != "IRModule":  # modules have no common instance, and are compared structurally
        assert node == again
        assert hash(node) == hash(again)
    assert not any(other == node for name, other in nodes().items() if name != kind)


@pytest.mark.parametrize("kind", nodes())
def test_replace_keeps_or_renews_every_kind(kind: str) -> None:
    node, span = nodes()[kind], Span("model.py", 3)
    assert replace(node, span=node.span) is node
    moved = replace(node, span=span)
    assert type(moved) is type(node)
    assert moved.span is span
    assert (moved == node) == (kind not in IDENTITIES)
    assert node.span is None


@pytest.mark.parametrize("kind", nodes())
def test_copies_are_the_node_itself_unless_it_can_be_assigned_to(kind: str) -> None:
    node = nodes()[kind]
    assert (copy.copy(node) is node) == (kind != "IRModule")
    assert (copy.deepcopy(node) is node) == (kind != "IRModule")


@pytest.mark.parametrize("kind", nodes())
def test_every_kind_can_be_pickled(kind: str) -> None:
    node = nodes()[kind]
    again = pickle.loads(pickle.dumps(node))
    assert type(again) is type(node)
    assert str(again) == str(node)


def test_pickling_keeps_the_identity_of_variables() -> None:
    call, var = pickle.loads(pickle.dumps((X + X, X)))
    assert call.args[0] is call.args[1] is var
    assert call.op is get_op("relax.add")
    assert call.ty == var.ty


@pytest.mark.parametrize("kind", nodes())
def test_nodes_are_frozen(kind: str) -> None:
    with pytest.raises(AttributeError, match="cannot assign to field"):
        nodes()[kind].span = None  # type: ignore[misc]  # what is tested


def test_variables_are_identities() -> None:
    assert Var("x", TY) != Var("x", TY)
    assert len({X, Y, Var("x", TY)}) == 3
    assert isinstance(Y, Var)


def test_the_type_does_not_count_in_comparisons() -> None:
    assert GlobalVar("f", ty=FuncType()) == GlobalVar("f")
    assert replace(X + X, ty=None) == X + X


def test_a_tuple_has_the_types_of_its_fields() -> None:
    pair = Tuple((X, PrimExpr(3)))
    assert pair.ty == TupleType((TY, PrimType("int64")))
    assert replace(pair, fields=(Y,)).ty == TupleType((TY,))
    assert Tuple((Var("untyped"),)).ty is None
    assert list(pair) == [X, PrimExpr(3)]
    assert len(pair) == 2


def test_a_field_has_its_own_type() -> None:
    assert TupleGetItem(PAIR, 1).ty == PrimType("int64")
    assert replace(TupleGetItem(PAIR, 1), index=0).ty == TY
    assert TupleGetItem(Var("any", ObjectType()), 5).ty == ObjectType()
    assert TupleGetItem(Var("untyped"), 5).ty is None


def test_a_sequence_has_the_type_of_its_result() -> None:
    assert BODY.ty == TY
    assert replace(BODY, body=PAIR).ty == PAIR.ty
    assert list(BODY.bindings()) == [VarBinding(Y, X)]


def test_a_wrong_field_is_an_error() -> None:
    with pytest.raises(IndexError, match="`pair` has 2 fields: there is no field 2"):
        PAIR[2]
    with pytest.raises(IndexError, match="there is no field -1"):
        PAIR[-1]
    with pytest.raises(TypeError, match="`x` is no tuple: its type is"):
        X[0]
    with pytest.raises(TypeError, match="a tuple is indexed by an integer, found `slice"):
        PAIR[0:1]  # type: ignore[index]  # what is tested


def test_a_tuple_can_be_unpacked_and_a_tensor_cannot() -> None:
    first, second = PAIR
    assert (first, second) == (TupleGetItem(PAIR, 0), TupleGetItem(PAIR, 1))
    with pytest.raises(TypeError, match="only a tuple can be unpacked, and `x` is of type"):
        iter(X)


def test_shapes_and_scalars_know_their_types() -> None:
    shape = ShapeExpr((N, np.int64(2)))  # type: ignore[arg-type]  # numpy's integers are taken
    assert shape.ty == ShapeType((N, 2))
    assert list(shape) == [N, 2]
    assert shape[0] is N
    assert len(shape) == 2
    assert PrimExpr(True).ty == PrimType("bool")
    assert PrimExpr(1.5).dtype == "float64"
    assert PrimExpr(N).dtype == "int64"
    assert PrimExpr(1, "int32").ty == PrimType("int32")
    assert PrimExpr(1) != PrimExpr(True)
    assert PrimExpr(1) != PrimExpr(1.0)
    assert PrimExpr(0.0) != PrimExpr(-0.0)
    assert PrimExpr(float("nan")) == PrimExpr(float("nan"))
    with pytest.raises(TypeError, match="`'n'` is no dimension"):
        ShapeExpr(("n",))  # type: ignore[arg-type]  # what is tested


def test_functions_and_variables_can_be_called() -> None:
    assert X(Y) == Call(X, (Y,))
    assert GlobalVar("f")(X, Y) == Call(GlobalVar("f"), (X, Y))


def test_a_function_from_outside_is_taken_to_be_impure() -> None:
    assert ExternFunc("f").ty == FuncType(pure=False)


def test_a_call_freezes_what_it_is_given() -> None:
    call = Call(GlobalVar("f"), [X], {"axes": [1]}, [TY])
    assert call == Call(GlobalVar("f"), (X,), Attrs(axes=(1,)), (TY,))


SIGNS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (operator.add, "relax.add"),
    (operator.sub, "relax.subtract"),
    (operator.mul, "relax.multiply"),
    (operator.truediv, "relax.divide"),
    (operator.floordiv, "relax.floor_divide"),
    (operator.mod, "relax.mod"),
    (operator.pow, "relax.power"),
]
COMPARISONS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (operator.lt, "relax.less"),
    (operator.le, "relax.less_equal"),
    (operator.gt, "relax.greater"),
    (operator.ge, "relax.greater_equal"),
]


@pytest.mark.parametrize(("sign", "name"), SIGNS + COMPARISONS)
def test_signs_are_operators(sign: Callable[[Any, Any], Any], name: str) -> None:
    other = Var("other", TY)
    assert sign(X, other) == get_op(name)(X, other)
    assert sign(X, 2) == get_op(name)(X, const(2, "float32"))


@pytest.mark.parametrize(("sign", "name"), SIGNS)
def test_signs_take_numbers_on_their_left(sign: Callable[[Any, Any], Any], name: str) -> None:
    assert sign(2, X) == get_op(name)(const(2, "float32"), X)


def test_negation_and_conversion() -> None:
    assert get_op("relax.negative")(X) == -X
    assert X.astype("float16") == get_op("relax.astype")(X, "float16")


def test_what_is_no_number_is_no_operand() -> None:
    with pytest.raises(TypeError, match=r"is no operand for a tensor: write R\.const"):
        X + np.ones(2)
    with pytest.raises(TypeError, match=r"`1` is no operand for a tensor: write R\.const"):
        PAIR + 1


def test_a_number_beside_a_tensor_is_one_of_its_dtype() -> None:
    whole, flag = Var("i", TensorType((3,), "int8")), Var("b", TensorType((3,), "bool"))
    assert whole * True == get_op("relax.multiply")(whole, const(1, "int8"))
    with pytest.raises(TypeError, match=r"`0\.5` stands beside a tensor of dtype int8"):
        operator.mul(whole, 0.5)
    with pytest.raises(TypeError, match=r'convert the tensor first, as by R\.astype\(x, "float32"'):
        operator.lt(2.0, whole)
    with pytest.raises(TypeError, match=r'`2` .* dtype bool.* R\.astype\(x, "int32"'):
        operator.add(flag, 2)


def test_constants_are_equal_by_dtype_shape_and_bits() -> None:
    assert const(1.0) == const(1.0)
    assert const(1.0) != const(1.0, "float16")
    assert const([1.0]) != const([[1.0]])
    assert const(float("nan")) == const(float("nan"))
    assert const(0.0) != const(-0.0)
    assert const(1.0) != X
    turned = Constant(np.array([[1.0, 2.0], [3.0, 4.0]]).T)
    assert turned == Constant(np.array([[1.0, 3.0], [2.0, 4.0]]))


def test_dtypes_by_name() -> None:
    assert np_dtype("float32") == np.dtype("float32")
    assert np_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)
    assert np_dtype("int4") == np.dtype(ml_dtypes.int4)
    with pytest.raises(TypeError, match="there is no dtype `float33`"):
        np_dtype("float33")


def test_a_sequence_of_expressions_as_one() -> None:
    assert as_tuple([X, Y]) == Tuple((X, Y))
    assert as_tuple(X) is X
    for items, shown in ((3, "3"), ([X, 1.5], "1.5")):
        with pytest.raises(TypeError, match=rf"`{shown}` is no expression: write R\.const"):
            as_tuple(items)  # type: ignore[arg-type]  # what is tested


def test_a_variable_shows_its_name() -> None:
    expr: Expr = X
    assert str(expr) == "x"
    assert "R.add(x, y)" in repr(X + Y)


def test_python_cannot_branch_on_a_value() -> None:
    """`x < y` is a tensor: taken for true, it would choose a branch without a word."""
    x = Var("x", TensorType((), "float32"))
    for value in (x, x < x, Tuple(()), PrimExpr(1)):
        with pytest.raises(TypeError, match="Python cannot branch on it: write `if` inside"):
            bool(value)
