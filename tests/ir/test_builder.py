"""The builder: A-normal form, unique names, functions and modules."""

from collections.abc import Iterator

import pytest
from built_functions import FLAG, IMPURE, TY, M, N, X, Y, bindings, built

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax import FuncType, IRModule, ObjectType, ShapeType, TensorType, TupleType
from relaxjax.ir.builder import BlockBuilder, Names, make_function
from relaxjax.ir.check import well_formed
from relaxjax.ir.expr import (
    Call,
    DataflowVar,
    Expr,
    GlobalVar,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    const,
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
from relaxjax.ir.node import replace

# Normal form


def test_nested_calls_are_bound_in_the_order_of_evaluation() -> None:
    function = built(lambda builder: builder.emit((X + Y) * (X - Y) + X))
    assert bindings(function) == [
        "gv = R.add(x, y)",
        "gv1 = R.subtract(x, y)",
        "gv2 = R.multiply(gv, gv1)",
        "gv3 = R.add(gv2, x)",
    ]


def test_tuples_of_leaves_stay_and_others_are_bound() -> None:
    nested = Tuple((X, Tuple((Y, X + Y))))
    function = built(lambda builder: builder.emit(nested, "pair"))
    assert bindings(function) == ["gv = R.add(x, y)", "pair = (x, (y, gv))"]
    builder = BlockBuilder()
    with builder.scope():
        leaf = Tuple((X, const(1.0)))
        assert builder.normalize_leaf(leaf) is leaf


def test_a_sequence_of_expressions_is_a_tuple() -> None:
    function = built(lambda builder: Tuple((builder.emit([X, Y]), X)))
    assert bindings(function) == ["gv = (x, y)"]
    assert function.body.ty == TupleType((TupleType((TY, TY)), TY))


def test_a_field_of_a_nested_value() -> None:
    function = built(lambda builder: builder.emit(TupleGetItem(Tuple((X + X, Y)), 0)))
    first, second = function.body.bindings()
    assert first.value == X + X
    assert second.value == TupleGetItem(Tuple((first.var, Y)), 0)
    assert function.body.ty == TY


def test_what_is_normal_stays_the_very_same_object() -> None:
    call = X + Y
    function = built(lambda builder: builder.emit(call))
    assert function.body.blocks[0].bindings[0].value is call


def test_untyped_calls_are_typed() -> None:
    function = built(lambda builder: builder.emit(replace(X + Y, ty=None)))
    assert function.body.ty == TY


def test_the_result_of_a_function_is_a_leaf() -> None:
    assert bindings(built(lambda builder: X + Y)) == ["gv = R.add(x, y)"]


def test_closures_are_bound_and_their_bodies_normalised() -> None:
    inner = Var("inner", TY)
    closure = Function((inner,), SeqExpr((), (inner + X) * inner), TY)

    def body(builder: BlockBuilder) -> Expr:
        return builder.emit(Call(closure, (Y,)))

    closed, call = built(body).body.bindings()
    assert isinstance(closed.value, Function)
    assert len(list(closed.value.body.bindings())) == 2
    assert closed.var.ty == FuncType((TY,), TY)
    assert call.value == Call(closed.var, (Y,))
    assert call.var.ty == TY


def choice(true: SeqExpr, false: SeqExpr) -> If:
    return If(FLAG, true, false)


def test_branches_are_normalised_in_a_scope_of_their_own() -> None:
    inside = Var("inside", TY)
    true = SeqExpr((BindingBlock((VarBinding(inside, (X + Y) * Y),)),), inside - X)
    false = SeqExpr((), X)
    function = built(lambda builder: builder.emit(choice(true, false)))
    (binding,) = function.body.bindings()
    assert isinstance(binding.value, If)
    assert [b.var.name for b in binding.value.true_branch.bindings()] == ["gv", "inside", "gv1"]
    assert binding.value.false_branch is false
    assert binding.var.ty == TY


def test_branches_that_are_normal_stay_the_very_same_objects() -> None:
    flow = DataflowBlock((VarBinding(DataflowVar("lv", TY), X + Y), VarBinding(Var("o", TY), X)))
    true = SeqExpr((flow, BindingBlock((VarBinding(Var("p", TY), X + Y),))), X)
    function = built(lambda builder: builder.emit(choice(true, SeqExpr((), Y))))
    (binding,) = function.body.bindings()
    assert isinstance(binding.value, If)
    assert binding.value.true_branch is true


def test_a_nested_condition_is_bound_first() -> None:
    pair = Var("pair", TupleType((TensorType((), "bool"), TY)))
    nested = If(pair[0], SeqExpr((), X), SeqExpr((), Y))
    function = built(lambda builder: builder.emit(nested), X, Y, pair)
    assert [type(b.value) for b in function.body.bindings()] == [TupleGetItem, If]


def test_an_emitted_sequence_is_unfolded_with_its_blocks() -> None:
    lv, out = DataflowVar("lv", TY), Var("out", TY)
    flow = DataflowBlock((VarBinding(lv, X + Y), VarBinding(out, lv * (X - Y))))
    plain = BindingBlock((VarBinding(Var("p", TY), out + out),))
    function = built(lambda builder: builder.emit(SeqExpr((flow, plain), out + Y), "last"))
    assert [type(block) for block in function.body.blocks] == [DataflowBlock, BindingBlock]
    assert [b.var.name for b in function.body.bindings()] == ["lv", "lv1", "out", "p", "last"]


def test_a_sequence_inside_a_dataflow_block_joins_it() -> None:
    lv, out = DataflowVar("lv", TY), Var("out", TY)
    flow = DataflowBlock((VarBinding(lv, X + Y), VarBinding(out, lv * X)))

    def body(builder: BlockBuilder) -> Expr:
        with builder.dataflow():
            return builder.emit_output(SeqExpr((flow,), out))

    function = built(body)
    assert len(function.body.blocks) == 1
    assert [b.var.name for b in function.body.bindings()] == ["lv", "out", "gv"]


# Names


def test_names_are_unique_with_the_next_free_number() -> None:
    names = Names(["x", "y1"])
    assert [names.unique(hint) for hint in ("x", "x", "x1", "y", "y", "z")] == [
        "x1",
        "x2",
        "x11",
        "y",
        "y2",
        "z",
    ]


def test_the_names_of_parameters_are_taken() -> None:
    function = built(lambda builder: builder.emit(builder.emit(X + Y, "x") + Y, "x"))
    assert [binding.var.name for binding in function.body.bindings()] == ["x1", "x2"]


def test_names_begin_anew_in_the_next_function() -> None:
    builder = BlockBuilder()
    for name in ("f", "g"):
        x = Var("x", TY)
        with builder.function(name, x):
            builder.emit_func_output(builder.emit(x + x))
    assert [f.body.body.name for f in builder.get().relax_functions().values()] == ["gv", "gv"]  # type: ignore[attr-defined]  # variables
    well_formed(builder.get())


def test_scopes_take_no_given_name() -> None:
    builder = BlockBuilder()
    with builder.scope(taken=["gv"]):
        assert builder.emit(X).name == "gv1"
        assert builder.get_unique_name("gv") == "gv2"


def test_names_that_are_taken_are_looked_at_when_one_is_asked_for() -> None:
    asked: list[str] = []

    def names() -> Iterator[str]:
        asked.append("names")
        yield "gv"

    builder = BlockBuilder()
    with builder.scope(taken=names()):
        builder.keep_binding(VarBinding(Var("gv1", TY), X))
        assert not asked
        assert [builder.get_unique_name("gv") for _ in range(2)] == ["gv2", "gv3"]
    assert asked == ["names"]


# Functions and modules


def test_a_function_states_what_can_be_said_outside() -> None:
    """What it defines itself is unknown there; what a function around it defines is not."""
    assert built(lambda builder: builder.emit(X + Y)).ret_ty == TY
    s = Var("s", ShapeType(None, 2))
    held = Var("held", TensorType(s, "float32"))
    assert built(lambda builder: held, s, held).ret_ty == held.ty
    assert make_function([held], SeqExpr((), held)).ret_ty == held.ty
    found = SeqExpr((BindingBlock((VarBinding(s, ShapeExpr((2, 3))),)),), held)
    assert make_function([], found).ret_ty == TensorType(None, "float32", 2)
    assert make_function([X], SeqExpr((), X), ret_ty=ObjectType()).ret_ty == ObjectType()


def test_a_closure_states_dimensions_of_the_function_around_it() -> None:
    around = Var("around", TensorType((N,), "float32"))
    own = Var("own", TensorType((M,), "float32"))
    block = BindingBlock((MatchCast(own, X, TensorType((M,), "float32")),))
    assert make_function([], SeqExpr((), around)).ret_ty == around.ty
    assert make_function([], SeqExpr((block,), own)).ret_ty == TensorType(None, "float32", 1)
    unused = Var("unused", TensorType((M,), "float32"))
    assert make_function([unused], SeqExpr((block,), own)).ret_ty == own.ty


def test_attributes_and_visibility() -> None:
    builder = BlockBuilder()
    with builder.function("f", [X], attrs={"note": 1}, pure=False):
        builder.emit_func_output(builder.emit(IMPURE))
    with builder.function("g", private=True):
        var = builder.emit_func_output(Y, params=Y)
    module = builder.finalize()
    assert dict(module["f"].attrs) == {"note": 1, "global_symbol": "f"}
    assert not module["f"].pure
    assert module["g"].global_symbol is None
    assert module["g"].params == (Y,)
    assert var == GlobalVar("g")
    assert var.ty == module["g"].ty


def test_a_function_calls_another() -> None:
    builder = BlockBuilder()
    with builder.function("f", [X]):
        f = builder.emit_func_output(X)
    with builder.function("main", [Y]):
        builder.emit_func_output(builder.emit(f(Y)))
    well_formed(builder.get())
    assert builder.get()["main"].ret_ty == TY


def test_functions_are_added_under_free_names() -> None:
    named = make_function([X], SeqExpr((), X), attrs={"global_symbol": "f"})
    builder = BlockBuilder(IRModule({"f": named}))
    other = make_function([Y], SeqExpr((), Y), attrs={"global_symbol": "f"})
    assert builder.add_func(other, "f") == GlobalVar("f1")
    assert builder.get()["f1"].global_symbol == "f1"
    assert builder.get()["f"] is named
    builder.update_func(GlobalVar("f"), other)
    assert builder.get()["f"] is other
    with pytest.raises(ValueError, match="the module has no function `h`"):
        builder.update_func(GlobalVar("h"), other)


def test_a_function_must_be_closed_once_and_in_its_place() -> None:
    builder = BlockBuilder()
    message = r"`emit_func_output` belongs inside `with builder\.function\(\.\.\.\)`"
    with pytest.raises(ValueError, match=message):
        builder.emit_func_output(X)
    with pytest.raises(ValueError, match=message), builder.function("f", [X]):
        builder.emit_func_output(builder.emit_func_output(X))
    missing = "`emit_func_output` is missing in the function `f`"
    with pytest.raises(ValueError, match=missing), builder.function("f", [X]):
        builder.emit(X)
    with (
        pytest.raises(ValueError, match="the function `f` is still open"),
        builder.function("f", [X]),
        builder.function("g", [X]),
    ):
        pass


@pytest.mark.parametrize(
    "ty",
    [TensorType((), "float32"), TensorType((3,), "bool"), TupleType((TensorType((), "bool"),))],
    ids=str,
)
def test_a_condition_is_a_scalar_of_bool(ty: TensorType | TupleType) -> None:
    condition, builder = Var("c", ty), BlockBuilder()
    match = "a condition is a scalar of dtype bool, but `c` is of type R"
    with pytest.raises(TypeError, match=match), builder.function("f", [X, condition]):
        builder.emit(If(condition, SeqExpr((), X), SeqExpr((), X)))


def test_a_parameter_is_a_variable_of_its_own() -> None:
    builder = BlockBuilder()
    match = "the function `f` takes the variable `x` twice: each parameter is a variable of its own"
    with pytest.raises(ValueError, match=match), builder.function("f", [X, X]):
        builder.emit_func_output(X)


def test_a_builder_can_be_used_again_after_an_error() -> None:
    builder = BlockBuilder()
    with pytest.raises(ValueError, match="impure"), builder.function("f", [X]), builder.dataflow():
        builder.emit(IMPURE)
    with builder.function("f", [X]):
        builder.emit_func_output(X)
    well_formed(builder.get())


def test_nothing_is_emitted_where_nothing_is_open() -> None:
    with pytest.raises(ValueError, match="nothing is open: write `with builder"):
        BlockBuilder().emit(X)
