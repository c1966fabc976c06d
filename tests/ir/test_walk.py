"""Walking: everything is met once and in order, and what does not change stays the same object."""

from full import how_many
from hypothesis import given, settings
from strategies import modules

from relaxjax import FuncType, IRModule, ObjectType, ShapeType, TensorType, TupleType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import (
    Call,
    DataflowVar,
    Expr,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
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
from relaxjax.ir.op import get_op
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import (
    all_vars,
    bound_vars,
    children,
    definable_symbols,
    expr_symbols,
    free_vars,
    global_vars,
    is_call_of_leaves,
    map_bindings,
    nested_sequences,
    post_order,
    rewrite,
    substitute,
    substitute_type,
    type_symbols,
    type_vars,
    used_vars,
    value_symbols,
)

N, M, K = (SymbolicVar(name) for name in "nmk")
TY = TensorType((N, 2), "float32")
FLAG = Var("flag", TensorType((), "bool"))
X, Y, OUTSIDE = Var("x", TY), Var("y", TY), Var("outside", TY)
LV, CHOICE, INNER, CLOSURE = DataflowVar("lv", TY), Var("c", TY), Var("i", TY), Var("f", None)
G = GlobalVar("g")


def example() -> Function:
    """A function with every kind of scope: dataflow, branches, and a closure that sees outside."""
    flow = DataflowBlock((VarBinding(LV, X + X), VarBinding(Y, LV * OUTSIDE)))
    true = SeqExpr((BindingBlock((VarBinding(INNER, Y + X),)),), INNER)
    choice = VarBinding(CHOICE, If(FLAG, true, SeqExpr((), Y)))
    param = Var("p", TY)
    closure = VarBinding(CLOSURE, Function((param,), SeqExpr((), param), TY))
    call = G(CHOICE, Tuple((X, const(1.0))))
    return Function((X, FLAG), SeqExpr((flow, BindingBlock((choice, closure))), call), TY)


F = example()


def test_children_come_in_the_order_of_evaluation() -> None:
    call = G(X, Y)
    assert list(children(call)) == [G, X, Y]
    assert list(children(Tuple((X, Y)))) == [X, Y]
    pair = Var("pair", TupleType((TY, TY)))
    assert list(children(TupleGetItem(pair, 1))) == [pair]
    assert list(children(F.body)) == [*(b.value for b in F.body.bindings()), F.body.body]
    assert list(children(F)) == [F.body]
    assert list(children(X)) == []


def test_post_order_meets_children_first() -> None:
    add = get_op("relax.add")
    assert list(post_order(X + Y)) == [add, X, Y, X + Y]
    seen = list(post_order(F))
    assert seen[-1] is F
    assert len([item for item in seen if isinstance(item, SeqExpr)]) == 4


def test_variables() -> None:
    closure = F.body.blocks[1].bindings[1].value
    assert isinstance(closure, Function)
    (param,) = closure.params
    assert bound_vars(F) == (X, FLAG, LV, Y, INNER, CHOICE, param, CLOSURE)
    assert free_vars(F) == (OUTSIDE,)
    assert used_vars(F) == (X, LV, OUTSIDE, FLAG, Y, INNER, param, CHOICE)
    assert set(all_vars(F)) == {*bound_vars(F), OUTSIDE}
    assert count_uses(F)[X] == 4
    assert global_vars(F) == (G,)


def test_variables_of_what_is_not_normal_yet() -> None:
    true = SeqExpr((BindingBlock((VarBinding(INNER, X),)),), INNER)
    nested = Tuple((If(FLAG, true, SeqExpr((), X)), X))
    assert bound_vars(nested) == (INNER,)
    assert free_vars(nested) == (FLAG, X)


def test_nested_sequences_come_the_outer_first() -> None:
    sequences = list(nested_sequences(F))
    assert sequences[0] is F.body
    assert [len(seq.blocks) for seq in sequences] == [2, 1, 0, 0]


@given(modules())
@settings(max_examples=how_many(40, 1000))
def test_rules_that_change_nothing_keep_every_object(module: IRModule) -> None:
    for function in module.relax_functions().values():
        assert rewrite(function, lambda expr: expr) is function
        assert substitute(function, {OUTSIDE: X}) is function
        assert substitute(function, {}) is function
        assert map_bindings(function.body, lambda binding: binding) is function.body


@given(modules())
@settings(max_examples=how_many(40, 1000))
def test_variables_are_bound_or_free(module: IRModule) -> None:
    for function in module.relax_functions().values():
        bound = bound_vars(function)
        assert len(set(bound)) == len(bound)
        assert free_vars(function) == ()
        assert set(all_vars(function)) == set(bound)
        assert set(count_uses(function)) <= set(bound)


def test_rewriting_reaches_everything_and_keeps_the_rest() -> None:
    def subtract(expr: Expr) -> Expr:
        match expr:
            case Call(op=op, args=(left, right)) if op is get_op("relax.add"):
                return left - right
            case _:
                return expr

    changed = rewrite(F, subtract)
    assert isinstance(changed, Function)
    flow, rest = changed.body.blocks
    assert flow.bindings[0].value == X - X
    assert flow.bindings[1] is F.body.blocks[0].bindings[1]
    assert type(flow) is DataflowBlock
    choice, old = rest.bindings[0].value, F.body.blocks[1].bindings[0].value
    assert isinstance(choice, If)
    assert isinstance(old, If)
    assert choice.true_branch.blocks[0].bindings[0].value == Y - X
    assert choice.false_branch is old.false_branch
    assert rest.bindings[1] is F.body.blocks[1].bindings[1]


def test_rewriting_gives_tuples_the_types_of_their_new_fields() -> None:
    whole = Var("whole", TensorType((3,), "int32"))
    pair = Var("pair", TupleType((TY, TY)))
    wide = Var("wide", TupleType((whole.ty, TY)))  # type: ignore[arg-type]  # has a type
    assert substitute(Tuple((X, X)), {X: whole}).ty == TupleType((whole.ty, whole.ty))  # type: ignore[arg-type]  # has a type
    assert substitute(TupleGetItem(pair, 0), {pair: wide}).ty == whole.ty
    assert substitute(SeqExpr((), X), {X: whole}).ty == whole.ty


def test_bindings_can_be_dropped() -> None:
    def without_closure(binding: Binding) -> Binding | None:
        return None if binding.var is CLOSURE else binding

    changed = map_bindings(F.body, without_closure)
    assert [len(block.bindings) for block in changed.blocks] == [2, 1]
    assert changed.blocks[0] is F.body.blocks[0]


SHAPE = Var("s", ShapeType((N,)))
FUNCTION_TYPE = FuncType((TensorType((K,)),), TensorType((K, M)))
NESTED = TupleType((TensorType((N * 2, 3)), ShapeType((M,)), FUNCTION_TYPE, TensorType(SHAPE)))


def test_symbolic_dimensions_of_types() -> None:
    """A function type's own dimension `k` is none of them."""
    assert type_symbols(NESTED) == (N, M)
    assert type_symbols(None) == type_symbols(ObjectType()) == ()
    assert definable_symbols(NESTED) == (M,)
    assert type_vars(NESTED) == (SHAPE,)
    assert type_vars(FuncType((TensorType(SHAPE),), ObjectType())) == (SHAPE,)


def test_symbolic_dimensions_of_attributes_and_expressions() -> None:
    assert value_symbols(Attrs(sizes=(N, (M, 1)), ty=TensorType((K,)), name="n")) == (N, M, K)
    call = Call(G, (ShapeExpr((N,)), PrimExpr(M)), Attrs(size=K), (TY,), ty=TY)
    assert set(expr_symbols(call)) == {N, M, K}


def test_symbolic_dimensions_of_a_cast_are_among_those_of_its_sequence() -> None:
    cast = MatchCast(Var("y", TensorType((M,))), X, TensorType((M,)))
    assert M in expr_symbols(SeqExpr((BindingBlock((cast,)),), cast.var))


def test_substitution_in_types() -> None:
    assert substitute_type(NESTED, {N: 4, M: N}) == TupleType(
        (
            TensorType((8, 3)),
            ShapeType((N,)),
            FuncType((TensorType((K,)),), TensorType((K, N))),
            TensorType(SHAPE),
        )
    )
    assert substitute_type(NESTED, {SymbolicVar("other"): 4}) is NESTED
    opaque = FuncType(None, TensorType((N,)))
    assert substitute_type(opaque, {N: 4}) == FuncType(None, TensorType((4,)))
    assert substitute_type(opaque, {M: 4}) is opaque


def test_a_call_of_leaves_has_nothing_inside_its_arguments() -> None:
    x = Var("x", TensorType((2,), "float32"))
    call = get_op("relax.add")(x, const(1.0))
    assert is_call_of_leaves(call)
    assert is_call_of_leaves(get_op("lax.sin")(x))  # an operator of JAX is a leaf as well
    assert not is_call_of_leaves(get_op("relax.exp")(call))
    assert not is_call_of_leaves(get_op("relax.concat")(Tuple((x, x))))
    assert not is_call_of_leaves(x)
