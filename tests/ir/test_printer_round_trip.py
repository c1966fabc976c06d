"""What is printed reads back structurally equal, and prints the same again."""

from typing import Any

import numpy as np
import pytest

from relaxjax import IRModule, from_source
from relaxjax.ir.attrs import DESTINATION_PASSING, Attrs
from relaxjax.ir.builder import make_function
from relaxjax.ir.dims import SymbolicVar, dim_max
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    const,
    np_dtype,
)
from relaxjax.ir.function import (
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.op import OPS, Op, Param, get_op
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type

N, M, Q = SymbolicVar("n"), SymbolicVar("m"), SymbolicVar("q")
MATRIX = TensorType(None, "float32", 2)
ROWS = TensorType((Q, 4), "float32")
BOOL = TensorType((), "bool")


def round_trip(program: IRModule | Function, **options: Any) -> None:
    text = str(program.script(**options))
    again = from_source(text)
    assert_structural_equal(again, program)
    assert str(again.script(**options)) == text


def var(name: str = "v", ty: Type = MATRIX) -> Var:
    return Var(name, ty)


def bound(value: Expr, name: str = "v") -> VarBinding:
    return VarBinding(Var(name, value.ty), value)


def function(
    *bindings: VarBinding | MatchCast, result: Expr, params: tuple[Var, ...] = (), **fields: Any
) -> Function:
    blocks = (BindingBlock(bindings),) if bindings else ()
    return make_function(params, SeqExpr(blocks, result), **fields)


def main(*bindings: VarBinding | MatchCast, **fields: Any) -> IRModule:
    return IRModule.from_expr(function(*bindings, **fields))


CONSTANTS = (
    *(const(True), const(-3), const(0.1), const(1e300, "float64"), const(2**63, "uint64")),
    *(const(float("nan")), const(float("-inf"), "bfloat16"), const(-0.0, "float16")),
    *(const([1.5, 2.5], "float8_e4m3fn"), const([-1, 7], "int4"), const([[1, 2]], "int64")),
    *(Constant(np.zeros((0, 2))), Constant(np.zeros((2, 0))), Constant(np.array(1 + 2j))),
    *(Constant(np.ones(20, np_dtype(name))) for name in ("int4", "float4_e2m1fn", "bool")),
    Constant(np.array([0x7FC00001], np.uint32).view(np.float32)),
)


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda c: f"{c.dtype}{list(c.data.shape)}")
def test_constants(constant: Constant) -> None:
    round_trip(main(result=constant))


def test_values_of_the_host() -> None:
    shape = var("s", ShapeType((N,)))
    scalars = [PrimExpr(N * 2), PrimExpr(3), PrimExpr(True), PrimExpr(float("-inf"))]
    scalars += [PrimExpr(0.5, "float32"), PrimExpr(7, "int32"), PrimExpr(1, "float16")]
    scalars += [PrimExpr(1, "int4"), PrimExpr(2, "float8_e4m3fn"), PrimExpr(2, "complex64")]
    bindings = [bound(value) for value in (*scalars, StringImm('"\n\\层'), DataTypeImm("int4"))]
    result = Tuple(tuple(binding.var for binding in bindings))
    round_trip(main(*bindings, result=result, params=(shape,)))


def test_attributes() -> None:
    shape, big = var("s", ShapeType((N,))), Constant(np.arange(20))
    values = {
        "a": complex(float("inf"), -0.0),
        "b": [None, True, 1, -1.5, float("nan")],
        "c": {"d": {}, "e": [(), "text"]},
        "f": const(1),
        "g": TensorType((N, 2), "int8"),
        "h": N * 2 + 1,
        "i": big,
    }
    round_trip(main(result=shape, params=(shape,), attrs=values))
    round_trip(IRModule(attrs={"a": const(1), "b": [big, big], "c": {"d": MATRIX}}))


TYPES = (
    *(ObjectType(), PrimType("int64"), PrimType("bool"), TupleType(()), TupleType((MATRIX,))),
    *(ShapeType(), ShapeType(()), ShapeType(ndim=2), ShapeType((N, N * 2 + 1, dim_max(N, M), M))),
    *(TensorType(), TensorType(dtype="int8"), TensorType((2,)), TensorType((M,), "int8")),
    *(FuncType(), FuncType(pure=False), FuncType(ret=MATRIX), FuncType((), MATRIX, False)),
    FuncType((ShapeType((M,)),), ShapeType((M,))),
    TensorType((2,), "int8", vdevice="cuda:1:global"),
)


@pytest.mark.parametrize("ty", TYPES, ids=str)
def test_types(ty: Type) -> None:
    symbols, x = var("s", ShapeType((N, M))), var("x", ty)
    round_trip(main(bound(x), result=x, params=(symbols, x)))


def test_a_shape_held_in_a_variable() -> None:
    shape = var("s", ShapeType(ndim=2))
    x = var("x", TensorType(shape, "float32"))
    round_trip(main(result=x, params=(shape, x)))


def test_tuples() -> None:
    x = var("x")
    pair = bound(Tuple((x, Tuple((x,)), Tuple(()))))
    inner = bound(TupleGetItem(pair.var, 1))
    for sugar in (True, False):
        program = main(pair, inner, result=Tuple((inner.var,)), params=(x,))
        round_trip(program, syntax_sugar=sugar)


def test_programs_without_their_types() -> None:
    x = var("x")
    first = bound(Tuple((x, ShapeExpr((2, 3)))))
    second = bound(TupleGetItem(first.var, 0))
    round_trip(main(first, second, result=second.var, params=(x,)), show_all_types=False)


def test_closures_that_share_symbols_with_each_other_or_with_the_function_round_them() -> None:
    a, b, c = var("a", ShapeType((N,))), var("b", ShapeType((N, M))), var("c", ShapeType((M,)))
    first = bound(function(result=Tuple((a, b)), params=(b,)), "f")
    second = bound(function(result=c, params=(c,)), "g")
    alias = bound(first.var, "h")
    round_trip(main(first, second, alias, result=a, params=(a,)))
    round_trip(main(first, result=first.var, params=(a,)))
    nested = bound(function(second, result=second.var, params=(b,)), "k")
    round_trip(main(nested, result=a, params=(a,)))


def test_closures_and_match_cast() -> None:
    x, y, inner = var("x"), var("y", ROWS), var("z")
    cast = MatchCast(var("w", ROWS), x, ROWS)
    closure = bound(function(result=y, params=(y,)), "f")
    call = bound(Call(closure.var, (cast.var,), ty=ROWS))
    round_trip(main(cast, closure, call, result=call.var, params=(x,)))
    inside = MatchCast(var("w", ROWS), inner, ROWS)
    alone = bound(function(inside, result=inside.var, params=(inner,)), "f")
    round_trip(main(alone, result=x, params=(x,)))


def test_a_closure_that_calls_itself() -> None:
    x, f = var("x"), var("f", FuncType((MATRIX,), MATRIX))
    call = bound(Call(f, (x,), ty=MATRIX))
    closure = function(call, result=call.var, params=(x,), ret_ty=MATRIX)
    round_trip(main(VarBinding(f, closure), result=f))


@pytest.mark.parametrize("value", [var("x"), Tuple(()), Tuple((var("x"),))], ids=str)
def test_a_choice(value: Expr) -> None:
    params = (var("c", BOOL), *(value.fields if isinstance(value, Tuple) else [value]))
    first, second = bound(value, "r"), bound(value, "r")
    then = SeqExpr((BindingBlock((first,)),), first.var)
    other = SeqExpr((DataflowBlock((second,)),), second.var)
    inner = bound(If(params[0], SeqExpr((), value), then, ty=value.ty), "r")
    nested = SeqExpr((BindingBlock((inner,)),), inner.var)
    choice = bound(If(params[0], nested, other, ty=value.ty), "r")
    round_trip(main(choice, result=choice.var, params=params))


def test_blocks() -> None:
    x = var("x")
    hidden = VarBinding(DataflowVar("a", MATRIX), x)
    shown, between = bound(hidden.var, "a"), bound(x, "a")
    blocks = (
        DataflowBlock((hidden, shown)),
        BindingBlock((between,)),
        DataflowBlock((bound(shown.var, "a"),)),
    )
    round_trip(IRModule.from_expr(make_function((x,), SeqExpr(blocks, between.var))))


def test_calls_that_return_nothing() -> None:
    x = var("x")
    bindings = [bound(get_op("relax.print")(x, format="{}")) for _ in range(2)]
    fields: dict[str, Any] = {"params": (x,), "pure": False}
    round_trip(main(*bindings, result=x, **fields))
    round_trip(main(*bindings, result=bindings[0].var, **fields))


def test_an_operator_of_no_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's operator may have any name."""
    params = (Param("x", True, lambda x: x), Param("by", False, float, 2.0))
    twice = Op("mine.twice", params, lambda call: call.args[0].ty or ObjectType())
    monkeypatch.setitem(OPS, twice.name, twice)
    x = var("x")
    call = bound(twice(x, by=3.0))
    program = main(call, result=call.var, params=(x,))
    assert 'I.Op("mine.twice")(x, by=3.0)' in str(program)
    round_trip(program)


def test_functions_from_outside() -> None:
    x = var("x")
    known = ExternFunc("k", ty=FuncType((MATRIX,), MATRIX))
    callees = (known, ExternFunc("k", ty=FuncType()), ExternFunc("k"))
    for callee in callees:
        ty = MATRIX if callee is known else ObjectType()
        call = bound(Call(callee, (x,), ty=ty))
        pure = callee is not callees[-1]
        round_trip(main(call, result=call.var, params=(x,), pure=pure))
    round_trip(IRModule({"known": known, "j": ExternFunc("other")}))


@pytest.mark.parametrize("pure", [True, False])
def test_a_call_that_says_more_than_its_arguments(pure: bool) -> None:
    x, callee = var("x"), var("g", FuncType(pure=pure))
    attrs = Attrs({"lambda": 1, "two words": [2], "by": 3.0})
    for called in (callee, ExternFunc("k", ty=callee.ty)):
        call = bound(Call(called, (x,), attrs, (MATRIX,), ty=MATRIX))
        program = main(call, result=call.var, params=(callee, x), pure=pure)
        assert ("R.call_pure_packed(" in str(program)) is pure
        round_trip(program)


def test_calls_of_functions_that_fill_arrays() -> None:
    x, function = var("x"), ExternFunc("f", ty=FuncType(pure=True))
    attrs = Attrs({DESTINATION_PASSING: True})
    for args, ty, told in (
        ((x, x), MATRIX, '("f", (x, x), out_ty=R.Tensor('),
        ((), MATRIX, '("f", R.tuple(), out_ty=R.Tensor('),
        ((x,), TupleType((MATRIX, MATRIX)), '("f", (x,), out_ty=[R.Tensor('),
    ):
        call = bound(Call(function, args, attrs, (ty,), ty=ty))
        program = main(call, result=call.var, params=(x,))
        assert f"R.call_dps_packed{told}" in str(program)
        round_trip(program)


def test_a_function_alone() -> None:
    x = var("x")
    round_trip(function(result=x, params=(x,)))
    round_trip(function(result=x, params=(x,), attrs={"global_symbol": "f", "a": 1}, pure=False))
