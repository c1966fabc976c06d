"""Operators: calls are sorted into arguments and attributes, and read back the same way."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from relaxjax.ir import Attrs, Call, Expr, ObjectType, TensorType, Var, const
from relaxjax.ir.op import OPS, Op, Param, arguments, get_op, register, typed
from relaxjax.ir.registry import did_you_mean

TY = TensorType((2,), "float32")
X, Y, Z = (Var(name, TY) for name in "xyz")


def as_expr(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    raise TypeError(f"must be an expression, found {value!r}")


def first_type(call: Call) -> TensorType:
    arguments(call)
    ty = call.args[0].ty
    assert isinstance(ty, TensorType)
    return ty


def operator(*params: Param, **rules: Any) -> Op:
    return Op(name="test.op", params=params, infer=first_type, **rules)


DATA = Param("data", True, as_expr)
WEIGHT = Param("weight", True, as_expr, None)
BIAS = Param("bias", True, as_expr, None)
AXIS = Param("axis", False, int, -1)
SIZE = Param("size", False, int)


@pytest.fixture
def table() -> Iterator[None]:
    """The table of operators, put back afterwards."""
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def test_arguments_and_attributes_are_sorted_and_converted() -> None:
    call = operator(DATA, AXIS, WEIGHT)(X, "3", Y)
    assert call.args == (X, Y)
    assert call.attrs == Attrs(axis=3)
    assert call.ty == TY
    assert operator(DATA, AXIS)(data=X).attrs == Attrs(axis=-1)


def test_a_call_of_untyped_arguments_is_typed_later() -> None:
    call = operator(DATA)(Var("untyped"))
    assert call.ty is None
    known = typed(Call(call.op, (X,)))
    assert known.ty == TY
    assert typed(known) is known


def test_arguments_are_read_back_with_none_for_what_was_left_out() -> None:
    op = operator(DATA, AXIS, WEIGHT, BIAS)
    assert arguments(op(X)) == ([X, None, None], {"axis": -1})
    assert arguments(op(X, 0, Y)) == ([X, Y, None], {"axis": 0})
    assert arguments(op(X, 0, Y, Z)) == ([X, Y, Z], {"axis": 0})


def test_a_gap_between_arguments_is_an_error() -> None:
    op = operator(DATA, WEIGHT, BIAS)
    message = "test.op: `weight` is left out, so `bias` behind it must be left out too"
    with pytest.raises(TypeError, match=message):
        op(X, bias=Y)


def test_any_number_of_arguments_may_go_to_a_variadic_parameter() -> None:
    values = Param("values", True, lambda items: tuple(map(as_expr, items)), (), variadic=True)
    op = operator(AXIS, values)
    assert op(0, X, Y).args == (X, Y)
    assert arguments(op(0, X, Y)) == ([X, Y], {"axis": 0})
    assert arguments(Call(op, (), {"axis": 0}))[0] == []


def test_what_follows_from_other_arguments_is_completed() -> None:
    op = operator(DATA, AXIS, SIZE, complete=lambda data, axis, size: {"axis": axis % size})
    assert op(X, -1, 3).attrs == Attrs(axis=2, size=3)


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((), {}, r"test\.op\(data, size\): the argument `data` is missing"),
        ((X,), {}, "the argument `size` is missing"),
        ((X, 1, 2), {}, r"test\.op\(data, size\) takes 2 arguments, but 3 were given"),
        ((X, 1), {"axes": 1}, r"test\.op\(data, size\) has no argument `axes`"),
        ((X, 1), {"size": 1}, "the argument `size` is given twice"),
        ((None, 1), {}, r"test\.op: the argument `data` may not be None"),
        ((1, 1), {}, r"test\.op: `data` must be an expression, found 1"),
        ((X, "a"), {}, r"test\.op: `size` invalid literal for int"),
    ],
)
def test_wrong_arguments_are_errors(args: Any, named: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        operator(DATA, SIZE)(*args, **named)


@pytest.mark.parametrize(
    ("args", "attrs", "message"),
    [
        ((X, Y, Z), {"size": 1}, r"test\.op takes `data`, `weight`, but the call has 3 arguments"),
        ((), {"size": 1}, "the call has 0 arguments"),
        ((X,), {}, r"test\.op: the attribute `size` is missing"),
        ((X,), {"size": 1, "siz": 2}, r"has no attribute `siz`; did you mean `size`\?"),
    ],
)
def test_a_call_that_does_not_fit_its_operator_is_an_error(
    args: Any, attrs: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        arguments(Call(operator(DATA, WEIGHT, SIZE), args, attrs))


@pytest.mark.usefixtures("table")
def test_operators_are_registered_once_and_found_by_name() -> None:
    op = register(operator(DATA))
    assert get_op("test.op") is op
    assert Op.get("test.op") is op
    assert pickle.loads(pickle.dumps(op)) is op


@pytest.mark.usefixtures("table")
def test_an_operator_declared_again_takes_the_place_of_the_first() -> None:
    register(operator(DATA))
    again = register(operator(DATA))
    assert get_op("test.op") is again


@pytest.mark.usefixtures("table")
def test_the_name_of_another_operator_is_taken() -> None:
    def other_type(call: Call) -> TensorType:
        return TY

    register(operator(DATA))
    message = (
        r"the operator `test\.op` is declared already, by `first_type` of `.*test_op` at .*:\d+: "
        r"give another name to `.*other_type` of `.*test_op` at .*test_op\.py:\d+"
    )
    with pytest.raises(ValueError, match=message):
        register(Op(name="test.op", params=(DATA,), infer=other_type))


@pytest.mark.usefixtures("table")
def test_an_unknown_operator_is_an_error_that_suggests_near_misses() -> None:
    register(operator(DATA))
    match = r"there is no operator `test\.opp`; did you mean `test\.op`\?"
    with pytest.raises(KeyError, match=match):
        get_op("test.opp")
    assert did_you_mean("zzz", ["relax.add"]) == ""
    assert did_you_mean("aab", ["aaa", "aac"]) in (
        "; did you mean `aac` or `aaa`?",
        "; did you mean `aaa` or `aac`?",
    )


def test_an_operator_is_an_expression_of_any_type() -> None:
    assert operator(DATA).ty == ObjectType()
    assert operator(DATA) != operator(DATA)
    assert operator(DATA, pure=False).pure is False
    assert const(1.0) != operator(DATA)
