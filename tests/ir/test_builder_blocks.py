"""The builder: dataflow blocks, casts, bindings as they stand, and their places."""

from collections.abc import Callable

import pytest
from built_functions import FLAG, IMPURE, TY, M, N, X, Y, built

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax import BlockBuilder, ShapeType, TensorType
from relaxjax.ir.expr import Call, DataflowVar, Expr, ShapeExpr, Tuple, Var
from relaxjax.ir.function import BindingBlock, DataflowBlock, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.span import Span

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
            lambda b: b.emit(If(FLAG, SeqExpr((), X), SeqExpr((), Y))),
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
