"""Structural equality: the same up to the names of what is bound, and nothing more."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from full import how_many
from hypothesis import given, settings
from strategies import modules

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import SymbolicVar, dim_max
from relaxjax.ir.expr import (
    Call,
    DataflowVar,
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
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.global_info import DummyGlobalInfo, VDevice
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew
from relaxjax.ir.span import Span
from relaxjax.ir.structural import assert_structural_equal, structural_equal, structural_hash
from relaxjax.ir.types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type

TY = TensorType((2,), "float32")


def program(
    *,
    names: str = "xyz",
    dims: tuple[str, str] = ("n", "m"),
    earlier: bool = False,
    dtype: str = "float32",
    width: Callable[[Any, Any], Any] = lambda n, m: n * 2 + m,
    cast: Callable[[Any, Any, Any], Any] = lambda n, m, k: k + m,
    attrs: dict[str, Any] | None = None,
    call_attrs: dict[str, Any] | None = None,
    pure: bool = True,
    swapped: bool = False,
    block: type[BindingBlock] = DataflowBlock,
    kind: type[Var] = DataflowVar,
    ret: Type | None = None,
    constant: float = 1.0,
    span: Span | None = None,
    stated: Type = TY,
) -> Function:
    """A function with two dimensions, a cast that defines a third, and two independent bindings."""
    symbols = [SymbolicVar(name) for name in (dims if not earlier else dims[::-1])]
    n, m = symbols if not earlier else symbols[::-1]
    k = SymbolicVar("k")
    a = Var(names[0], TensorType((n, width(n, m)), dtype))
    b = Var(names[1], TensorType((m, n), dtype))
    first, second = kind(names[2], TY), Var(names[2], TensorType((k, n), dtype))
    out = Var("out", TensorType((cast(n, m, k), n), dtype))
    bindings: list[Binding] = [
        VarBinding(first, Call(GlobalVar("f"), (a, const(constant)), Attrs(call_attrs), (stated,))),
        MatchCast(second, b, TensorType((k, n), dtype)),
        VarBinding(out, Call(GlobalVar("g"), (second, ShapeExpr((n, m)), PrimExpr(k)))),
    ]
    if swapped:
        bindings[:2] = bindings[1::-1]
    body = SeqExpr((block(tuple(bindings), span=span),), out)
    return Function((a, b), body, ret or ObjectType(), pure, Attrs(attrs), span=span)


SAME: dict[str, Function] = {
    "other names": program(names="uvw", dims=("rows", "columns")),
    "dimensions made in another order": program(earlier=True),
    "the same name for all": program(names="aaa", dims=("a", "a")),
    "other spans": program(span=Span("model.py", 3)),
}
DIFFERENT: dict[str, Function] = {
    "dtype": program(dtype="float16"),
    "a dimension of a parameter": program(width=lambda n, m: n + m * 2),
    "a dimension behind a cast": program(cast=lambda n, m, k: k + n),
    "an extreme": program(cast=lambda n, m, k: dim_max(k, m)),
    "function attributes": program(attrs={"a": 1}),
    "operator attributes": program(call_attrs={"axis": 1}),
    "purity": program(pure=False),
    "order of bindings": program(swapped=True),
    "kind of block": program(block=BindingBlock),
    "kind of variable": program(kind=Var),
    "result type": program(ret=TY),
    "constant": program(constant=2.0),
    "type argument": program(stated=TensorType((3,), "float32")),
}


def assert_same(lhs: Any, rhs: Any, **options: Any) -> None:
    """Equal both ways, and by hash."""
    assert_structural_equal(lhs, rhs, **options)
    assert_structural_equal(rhs, lhs, **options)
    assert structural_hash(lhs) == structural_hash(rhs)


def assert_different(lhs: Any, rhs: Any, **options: Any) -> None:
    assert not structural_equal(lhs, rhs, **options)
    assert not structural_equal(rhs, lhs, **options)


@pytest.mark.parametrize("what", SAME)
def test_what_does_not_count(what: str) -> None:
    assert_same(program(), SAME[what])
    assert_same(program(), SAME[what], map_free_vars=True)


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_counts(what: str) -> None:
    assert_different(program(), DIFFERENT[what])
    assert_different(program(), DIFFERENT[what], map_free_vars=True)
    assert structural_hash(program()) != structural_hash(DIFFERENT[what])


@given(modules())
@settings(max_examples=how_many(40, 1000))
def test_renewed_functions_are_equal_with_equal_hashes(module: IRModule) -> None:
    for function in module.relax_functions().values():
        copy, _ = renew(function)
        assert_same(function, copy)
    assert_same(module, module)


@given(modules(), modules())
@settings(max_examples=how_many(20, 500))
def test_hashes_agree_with_equality(left: IRModule, right: IRModule) -> None:
    if structural_equal(left, right):
        assert structural_hash(left) == structural_hash(right)
    else:
        assert structural_hash(left) != structural_hash(right)


def test_stated_types_count_and_inferred_ones_do_not() -> None:
    x = Var("x", TY)
    call = Call(GlobalVar("f"), (x,))
    assert_same(call, replace(call, ty=TY))
    assert_same(GlobalVar("f", ty=FuncType()), GlobalVar("f"))
    one, other = (Function((Var("x", ty),), SeqExpr((), const(1))) for ty in (TY, ObjectType()))
    assert_different(one, other)
    assert_different(ExternFunc("f"), ExternFunc("f", ty=FuncType((TY,), TY)))
    assert_different(ExternFunc("f"), ExternFunc("f", Attrs(a=1)))


# Free variables

X, Y = Var("x", TY), Var("y", TY)
N, M = SymbolicVar("n"), SymbolicVar("m")


def test_free_variables_are_themselves_unless_they_may_correspond() -> None:
    pair, turned = Tuple((X, Y)), Tuple((Y, X))
    assert_same(pair, Tuple((X, Y)))
    assert_different(pair, turned)
    assert_same(pair, turned, map_free_vars=True)
    assert_different(pair, Tuple((X, X)), map_free_vars=True)
    assert_different(pair, Tuple((X, Var("y", ObjectType()))), map_free_vars=True)
    assert_different(pair, Tuple((X, DataflowVar("y", TY))), map_free_vars=True)


def test_a_bound_variable_is_no_free_one() -> None:
    """Even where a free variable of one side is the bound one of the other."""
    captured = Function((X,), SeqExpr((), X), TY)
    free = Function((Y,), SeqExpr((), X), TY)
    assert_different(captured, free)
    assert_different(captured, free, map_free_vars=True)


def test_free_dimensions_are_themselves_unless_they_may_correspond() -> None:
    one, other = TensorType((N, N * 2 + 1)), TensorType((M, M * 2 + 1))
    assert_different(one, other)
    assert_same(one, TensorType((N, 1 + N + N)))
    assert_same(one, other, map_free_vars=True)
    assert_different(one, TensorType((M, N * 2 + 1)), map_free_vars=True)
    assert_different(TensorType((N, M)), TensorType((M, M)), map_free_vars=True)


def test_a_bound_dimension_is_no_free_one() -> None:
    """`n` is free on the right: it must not be taken for the parameter's dimension."""
    left = Function((Var("x", TensorType((M,))),), SeqExpr((), ShapeExpr((M,))))
    right = Function((Var("x", TensorType((N,))),), SeqExpr((), ShapeExpr((M,))))
    assert_different(left, right)
    assert_different(left, right, map_free_vars=True)


def test_shapes_held_by_variables() -> None:
    def held(name: str) -> Function:
        shape = Var(name, ShapeType(None, 2))
        tensor = Var("t", TensorType(shape, "float32"))
        return Function((tensor, shape), SeqExpr((), tensor), TensorType(shape, "float32"))

    assert_same(held("s"), held("shape"))
    assert_different(TensorType(Var("s", ShapeType())), TensorType(Var("s", ShapeType())))


# Scopes


def test_a_function_type_binds_its_own_dimensions() -> None:
    def ty(*symbols: SymbolicVar) -> FuncType:
        return FuncType(tuple(TensorType((s,)) for s in symbols), TensorType(symbols[:1]))

    assert_same(ty(N, M), ty(M, N))
    assert_different(ty(N, M), ty(N, N))
    other = SymbolicVar("other")
    assert_same(TupleType((ty(N), ty(N))), TupleType((ty(M), ty(other))))
    assert_different(FuncType((), TensorType((N,))), FuncType((), TensorType((M,))))


def test_functions_may_share_dimensions_or_not() -> None:
    """As after a pass, and after reading back what it printed."""

    def function(symbol: SymbolicVar) -> Function:
        x = Var("x", TensorType((symbol,)))
        return Function((x,), SeqExpr((), x), TensorType((symbol,)))

    shared = IRModule({"f": function(N), "g": function(N)})
    apart = IRModule({"f": function(N), "g": function(M)})
    assert_same(shared, apart)


def test_dimensions_of_branches_are_their_own() -> None:
    def choice(first: SymbolicVar, second: SymbolicVar) -> Expr:
        def branch(symbol: SymbolicVar) -> SeqExpr:
            var = Var("c", TensorType((symbol,)))
            cast = MatchCast(var, X, TensorType((symbol,)))
            return SeqExpr((BindingBlock((cast,)),), ShapeExpr((symbol,)))

        return If(X, branch(first), branch(second))

    assert_same(choice(N, N), choice(N, M))


def test_closures_may_call_themselves_and_see_outside() -> None:
    def recursive(name: str) -> SeqExpr:
        this, param = Var(name, FuncType((TY,), TY)), Var("p", TY)
        closure = Function((param,), SeqExpr((), Tuple((this, param, X))), TY)
        return SeqExpr((BindingBlock((VarBinding(this, closure),)),), this)

    assert_same(recursive("f"), recursive("g"))


# Values


def infos(*values: Any) -> IRModule:
    return IRModule(global_infos={"infos": values})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (const(1.0), const(1.0, "float16")),
        (const([1.0]), const([[1.0]])),
        (const(0.0), const(-0.0)),
        (PrimExpr(1), PrimExpr(1, "int32")),
        (PrimExpr(1), PrimExpr(True)),
        (Attrs(a=1), Attrs(a=1.0)),
        (Attrs(a=1), Attrs(a=True)),
        (Attrs(a=(1, (2,))), Attrs(a=(1, 2))),
        (Attrs(a=1), Attrs(b=1)),
        (Attrs(a=1), Attrs(a=1, b=None)),
        (Attrs(a=Attrs(b=1)), Attrs(a=Attrs(b=2))),
        (Tuple((X,)), Tuple((X, X))),
        (Tuple(()), X),
        (TupleGetItem(Var("t"), 0), Tuple(())),
        (StringImm("a"), StringImm("b")),
        (TensorType((2,)), TensorType((2,), vdevice="cpu")),
        (TensorType((2,)), ShapeType((2,))),
        (TensorType((2,)), TensorType(None, None, 1)),
        (PrimType("int64"), PrimType("int32")),
        (DataflowBlock(), BindingBlock()),
        (GlobalVar("f"), ExternFunc("f")),
        (IRModule({}, {"a": 1}), IRModule()),
        (infos(VDevice("cpu")), infos(VDevice("cpu", 1))),
        (infos(DummyGlobalInfo()), infos(VDevice("cpu"))),
        (IRModule({"f": program()}), IRModule({"g": program()})),
        (IRModule({"f": program()}), IRModule()),
        (1, 1.0),
    ],
    ids=str,
)
def test_different_values(left: Any, right: Any) -> None:
    assert_different(left, right)
    assert structural_hash(left) != structural_hash(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (const(float("nan")), const(float("nan"))),
        (PrimExpr(float("nan")), PrimExpr(float("nan"))),
        (Attrs(a=1, b=float("inf")), Attrs(b=float("inf"), a=1)),
        (Attrs(value=const([1, 2])), Attrs(value=const([1, 2]))),
        (Attrs(value=complex(0, float("nan"))), Attrs(value=complex(0, float("nan")))),
        (
            IRModule({"f": program(), "g": program(names="abc")}),
            IRModule({"g": program(), "f": program()}),
        ),
        (infos(VDevice({"kind": "cuda"})), infos(VDevice({"kind": "cuda"}))),
    ],
    ids=str,
)
def test_equal_values(left: Any, right: Any) -> None:
    assert_same(left, right)


# What is shown


def difference(left: Any, right: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_structural_equal(left, right)
    return str(caught.value)


def test_the_first_difference_is_shown_with_its_path_and_binding() -> None:
    x = Var("x", TY)

    def module(second: Expr) -> IRModule:
        lv, out = Var("lv", TY), Var("out", TY)
        bindings = (VarBinding(lv, GlobalVar("f")(x)), VarBinding(out, GlobalVar("f")(second)))
        return IRModule({"main": Function((x,), SeqExpr((BindingBlock(bindings),), out), TY)})

    assert difference(module(x), module(const(1.0))) == textwrap.dedent("""\
        the two differ at main.body.blocks[0].bindings[1].value.args[0]
        left:
            x
          in
            out: R.Tensor((2,), dtype="float32") = cls.f(x)
        right:
            R.const(1.0, "float32")
          in
            out: R.Tensor((2,), dtype="float32") = cls.f(R.const(1.0, "float32"))""")


def test_a_missing_part_is_shown() -> None:
    assert difference(Tuple((X,)), Tuple((X, Y))) == textwrap.dedent("""\
        the two differ at fields[1]
        left:
            nothing more
        right:
            y""")
    text = difference(IRModule({"f": program()}), IRModule())
    assert text.startswith("the two differ at f and functions\nleft:\n")
    assert difference(Attrs(a=1), Attrs(b=2)).startswith("the two differ at ['a'] and ['b']\n")
    assert difference(X, 3) == "the two differ at their root\nleft:\n    x\nright:\n    3"


def test_what_is_shown_is_small() -> None:
    calls = [GlobalVar(f"function_{index}") for index in range(200)]
    text = difference(Tuple(tuple(calls)), IRModule({f"f{i}": program() for i in range(9)}))
    assert len(text) < 2500
    assert all(len(line) < 170 for line in text.splitlines())
    assert "… and " in text


def test_hashes_are_the_same_in_every_process() -> None:
    code = """
        from relaxjax.ir.attrs import Attrs
        from relaxjax.ir.dims import SymbolicVar
        from relaxjax.ir.structural import structural_hash
        from relaxjax.ir.types import TensorType
        print(structural_hash(Attrs(a="text", ty=TensorType((SymbolicVar("n") * 2, 3)))))
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    printed = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    here = structural_hash(Attrs(a="text", ty=TensorType((SymbolicVar("m") * 2, 3))))
    assert int(printed) == here
