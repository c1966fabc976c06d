"""The builder: A-normal form, unique names, types, and the rules of blocks."""

from collections.abc import Callable

import pytest

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax.ir.builder import BlockBuilder, Names, make_function
from relaxjax.ir.check import well_formed
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import (
    Call,
    DataflowVar,
    Expr,
    ExternFunc,
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
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.span import Span
from relaxjax.ir.types import (
    FuncType,
    ObjectType,
    ShapeType,
    TensorType,
    TupleType,
)

N, M = SymbolicVar("n"), SymbolicVar("m")
TY = TensorType((N, 2), "float32")
X, Y = Var("x", TY), Var("y", TY)
FLAG = Var("flag", TensorType((), "bool"))
IMPURE = Call(ExternFunc("effect"), (X,), ty_args=(TY,))


def built(body: Callable[[BlockBuilder], Expr], *params: Var, pure: bool = True) -> Function:
    """The function that `body` emits, which must be well-formed."""
    builder = BlockBuilder()
    with builder.function("main", params or (X, Y, FLAG), pure=pure):
        builder.emit_func_output(body(builder))
    well_formed(builder.get())
    main = builder.get()["main"]
    assert isinstance(main, Function)
    return main


def bindings(function: Function) -> list[str]:
    """The bindings of a function as text, without their types."""
    return [
        f"{binding.var.name} = {binding.value}"
        for seq in [function.body]
        for binding in seq.bindings()
    ]


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
    assert bindings(function) == ["gv = R.add(x, x)", "gv1 = (gv, y)[0]"]
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


# Blocks


def test_dataflow_blocks_stand_between_others() -> None:
    def body(builder: BlockBuilder) -> Expr:
        before = builder.emit(X + Y)
        with builder.dataflow():
            assert builder.current_block_is_dataflow()
            lv = builder.emit(before * X)
            out = builder.emit_output(lv)
        assert not builder.current_block_is_dataflow()
        assert isinstance(lv, DataflowVar)
        assert builder.lookup_binding(lv) == before * X
        assert builder.lookup_binding(X) is None
        return builder.emit(out + X)

    function = built(body)
    kinds = [type(block) for block in function.body.blocks]
    assert kinds == [BindingBlock, DataflowBlock, BindingBlock]
    assert [b.var.name for b in function.body.bindings()] == ["gv", "lv", "gv1", "gv2"]


def test_a_dataflow_block_without_outputs_is_kept() -> None:
    def body(builder: BlockBuilder) -> Expr:
        with builder.dataflow():
            builder.emit(X)
        return X

    assert len(built(body).body.blocks) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda b: b.emit(IMPURE), r"is impure: it may not stand in a dataflow block"),
        (lambda b: b.emit(X + IMPURE), r"is impure: it may not stand in a dataflow block"),
        (
            lambda b: b.emit(choice(SeqExpr((), X), SeqExpr((), Y))),
            "a choice between branches may not stand in a dataflow block",
        ),
        (lambda b: b.dataflow().__enter__(), "a dataflow block may not stand inside another"),
        (
            lambda b: b.emit_func_output(X),
            "`emit_func_output` belongs after the dataflow block, not inside it",
        ),
    ],
)
def test_what_may_not_stand_in_a_dataflow_block(
    body: Callable[[BlockBuilder], object], message: str
) -> None:
    builder = BlockBuilder()
    with (
        pytest.raises(ValueError, match=message),
        builder.function("main", [X, Y, FLAG]),
        builder.dataflow(),
    ):
        body(builder)


def test_outputs_are_for_dataflow_blocks() -> None:
    builder = BlockBuilder()
    with builder.scope(), pytest.raises(ValueError, match="`emit_output` is for dataflow blocks"):
        builder.emit_output(X)


# Casts and bindings as they stand


def test_a_cast_defines_new_dimensions() -> None:
    wanted = TensorType((M, 2), "float32")

    def body(builder: BlockBuilder) -> Expr:
        with builder.dataflow():
            cast = builder.match_cast(X + Y, wanted)
            assert isinstance(cast, DataflowVar)
            out = builder.emit_output(cast + cast)
        return builder.emit(ShapeExpr((M,))) if out.ty == wanted else X

    function = built(body)
    casts = [b for b in function.body.bindings() if isinstance(b, MatchCast)]
    assert [cast.ty for cast in casts] == [wanted]
    assert function.ret_ty == ShapeType(None, 1)


def test_a_cast_that_can_never_succeed_is_an_error() -> None:
    builder = BlockBuilder()
    with builder.scope(), pytest.raises(TypeError, match=r"`x` is of type .*, which can never be"):
        builder.match_cast(X, TensorType((N, 3), "float32"))


def test_a_binding_keeps_its_variable() -> None:
    var, cast = Var("kept", TY), MatchCast(Var("c", TY), X, TY)

    def body(builder: BlockBuilder) -> Expr:
        assert builder.emit_binding(VarBinding(var, (X + Y) * Y)) is var
        assert builder.emit_binding(cast) is cast.var
        return var

    function = built(body)
    assert list(function.body.bindings())[1].var is var
    assert list(function.body.bindings())[2] is cast


# Functions and modules


def test_a_function_states_what_its_parameters_let_it_say() -> None:
    assert built(lambda builder: builder.emit(X + Y)).ret_ty == TY
    s = Var("s", ShapeType(None, 2))
    held = Var("held", TensorType(s, "float32"))
    assert built(lambda builder: held, s, held).ret_ty == held.ty
    assert make_function([held], SeqExpr((), held)).ret_ty == TensorType(None, "float32", 2)
    assert make_function([X], SeqExpr((), X), ret_ty=ObjectType()).ret_ty == ObjectType()


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


# Places


def test_places_survive_normalisation() -> None:
    span, inner = Span("model.py", 3), Span("model.py", 4)
    call = replace((X + Y) * X, span=span)
    call = replace(call, args=(replace(X + Y, span=inner), X))
    function = built(lambda builder: builder.emit(call))
    first, second = function.body.bindings()
    assert first.span == first.var.span == first.value.span == inner
    assert second.span == second.var.span == second.value.span == span


def test_what_has_no_place_of_its_own_is_given_one() -> None:
    origin, own = Span("model.py", 3), Span("model.py", 4)

    def body(builder: BlockBuilder) -> Expr:
        with builder.origin(origin), builder.origin(None):
            first = builder.emit(X + Y)
        return builder.emit(replace(first + X, span=own))

    first, second = built(body).body.bindings()
    assert first.span is origin
    assert second.span is own


def test_casts_have_a_place_too() -> None:
    span = Span("model.py", 3)

    def body(builder: BlockBuilder) -> Expr:
        return builder.match_cast(replace(X + Y, span=span), TY)

    *_, cast = built(body).body.bindings()
    assert cast.span == cast.var.span == span


def test_errors_of_blocks_bear_the_place_of_the_binding() -> None:
    span, builder = Span("model.py", 7), BlockBuilder()
    impure = replace(IMPURE, span=span)
    for emit in (builder.emit, lambda e: builder.emit_binding(VarBinding(Y, e, span=span))):
        with (
            builder.scope(),
            builder.dataflow(),
            pytest.raises(ValueError, match="impure") as caught,
        ):
            emit(impure)
        assert caught.value.__notes__ == ["  at model.py:7:1"]


def test_what_is_no_expression_cannot_be_emitted() -> None:
    builder = BlockBuilder()
    with builder.scope(), pytest.raises(TypeError, match="`3` is no expression"):
        builder.emit(3)  # type: ignore[arg-type]  # what is tested


def test_errors_bear_the_place_of_the_expression() -> None:
    wrong = Call((X + Y).op, (X, FLAG), span=Span("model.py", 7))  # type: ignore[attr-defined]  # a call
    builder = BlockBuilder()
    with builder.scope(), pytest.raises(TypeError, match="dtypes must be the same") as caught:
        builder.emit(Tuple((wrong,)))
    assert caught.value.__notes__ == ["  at model.py:7:1"]
