"""Well-formedness: the rules of types, purity and operators, with a test for each."""

import pytest
from faulty_programs import (
    EFFECT,
    FLAG,
    PAIR,
    TY,
    M,
    N,
    X,
    Y,
    Z,
    bind,
    choice,
    flow,
    found,
    function,
    only,
    plain,
)

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax import FuncType, IRModule, ObjectType, PrimType, ShapeType, TensorType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.check import faults
from relaxjax.ir.expr import Call, Expr, ExternFunc, GlobalVar, PrimExpr, ShapeExpr, Tuple, Var
from relaxjax.ir.function import Function, MatchCast, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew

# Rule 8


def test_everything_has_a_type() -> None:
    untyped = Var("u")
    assert found(function(plain(*bind((untyped, X))))) == [(8, "`u` has no type")]
    assert found(Function((untyped,), SeqExpr((), untyped))) == [(8, "`u` has no type")]
    call = replace(X + X, ty=None)
    assert found(function(plain(*bind((Y, call))))) == [(8, "`R.add(x, x)` has no type")]
    nothing = replace(choice(X), ty=None)
    assert found(function(plain(*bind((Y, nothing))))) == [
        (8, "a choice between branches has no type")
    ]
    callee = function()
    caller = Function((Y,), SeqExpr((plain(*bind((Z, GlobalVar("f")(Y)))),), Z), pure=False)
    assert (8, "the function `f` is used without its type") in found(
        IRModule({"f": callee, "main": caller})
    )


# Rules 9 and 10


def test_no_choice_stands_in_a_dataflow_block() -> None:
    message = "a choice between branches stands in a dataflow block"
    assert found(function(flow(*bind((Y, choice(X)))))) == [(9, message)]


def test_a_pure_function_calls_nothing_impure() -> None:
    message = (
        "the call of `effect` is impure, but the function says it is pure: "
        "write `@R.function(pure=False)`"
    )
    block = plain(*bind((Y, EFFECT)))
    assert found(function(block)) == [(10, message)]
    assert faults(function(block, pure=False)) == []
    assert faults(function(block, attrs={"relax.force_pure": True})) == []
    branch = choice(SeqExpr((plain(*bind((Y, EFFECT))),), Y))
    assert found(function(plain(*bind((Z, branch))))) == [(10, message)]


def test_a_closure_answers_for_itself() -> None:
    closure = Function((Y,), SeqExpr((plain(*bind((Z, replace(EFFECT, args=(Y,))))),), Z), TY)
    this = Var("this", FuncType((TY,), TY))
    program = function(plain(*bind((this, closure))), pure=False)
    assert [rule for rule, _ in found(program)] == [10]
    impure = replace(closure, pure=False)
    this = Var("this", impure.ty)
    assert faults(function(plain(*bind((this, impure))))) == []


def test_a_dataflow_block_calls_nothing_impure() -> None:
    message = "the call of `effect` is impure: move it out of the dataflow block"
    block = flow(*bind((Y, EFFECT)))
    assert found(function(block, pure=False)) == [(10, message)]
    assert found(function(block, attrs={"relax.force_pure": True})) == [(10, message)]


def test_whoever_forces_purity_must_say_pure() -> None:
    message = "a function with the attribute `relax.force_pure` must say it is pure"
    assert found(function(pure=False, attrs={"relax.force_pure": True})) == [(10, message)]


# Rule 11


def test_operators_are_called_as_they_are_declared() -> None:
    add = X + X

    def fault_of(call: Expr) -> tuple[int, str]:
        ((rule, message),) = found(function(plain(*bind((Var("o", ObjectType()), call)))))
        return rule, message

    assert fault_of(replace(add, args=(X,))) == (
        11,
        "relax.add takes `x1`, `x2`, but the call has 1 argument",
    )
    assert fault_of(replace(add, attrs=Attrs(axis=1))) == (11, "relax.add has no attribute `axis`")
    rule, message = fault_of(replace(add, args=(X, FLAG)))
    assert rule == 11
    assert message.startswith("relax.add: the dtypes must be the same")
    rule, message = fault_of(replace(add, args=(X, PAIR)))
    assert rule == 11
    assert message.startswith("relax.add: `x2` must be a tensor, but `pair` is of type")


# Rule 12


def undefined(name: str, where: str) -> tuple[int, str]:
    message = (
        f"the symbolic dimension `{name}` in {where} is not defined: a parameter or a match_cast "
        "before must have it as a dimension of its own"
    )
    return 12, message


def test_dimensions_are_defined_by_parameters() -> None:
    derived = Var("d", TensorType((M * 2,)))
    assert found(Function((derived,), SeqExpr((), derived))) == [undefined("m", "the type of `d`")]
    bare = Var("b", ShapeType((M,)))
    assert faults(Function((derived, bare), SeqExpr((), derived))) == []
    declared = Function((bare,), SeqExpr((), bare), ShapeType((N,)))
    assert found(declared) == [undefined("n", "the result type")]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (ShapeExpr((M,)), "a shape"),
        (Tuple((PrimExpr(M + 1),)), "a scalar"),
        (
            replace(EFFECT, ty_args=(TensorType((M,)),), ty=ObjectType()),
            "a type argument of `effect`",
        ),
        (replace(EFFECT, attrs=Attrs(size=(M, 1))), "the attributes of `effect`"),
        (ExternFunc("e", ty=FuncType(None, TensorType((M,)))), "the type of `e`"),
    ],
    ids=str,
)
def test_dimensions_are_defined_where_they_are_used(value: Expr, where: str) -> None:
    block = plain(*bind((Var("o", ObjectType()), value)))
    assert found(function(block, pure=False)) == [undefined("m", where)]


def test_dimensions_are_defined_by_casts_from_there_on() -> None:
    wanted = TensorType((M, 2), "float32")
    cast = MatchCast(Var("c", wanted), X, wanted)
    shape = bind((Var("s", ShapeType((M,))), ShapeExpr((M,))))
    assert faults(function(plain(cast, *shape))) == []
    assert found(function(plain(*shape, cast)))[:1] == [undefined("m", "a shape")]
    assert len(found(function(plain(*shape, cast)))) == 1
    in_branch = choice(SeqExpr((plain(cast),), X))
    assert found(function(plain(*bind((Y, in_branch)), *shape))) == [undefined("m", "a shape")]
    twice = MatchCast(Var("c", TensorType((M * 2,))), X, TensorType(None, "float32", 2))
    assert undefined("m", "the type of `c`") in found(function(plain(twice)))
    composite = TensorType((M * 2, 2), "float32")
    assert undefined("m", "the type") in found(
        function(plain(MatchCast(Var("c", composite), X, composite)))
    )


def test_shapes_that_types_mention_are_visible() -> None:
    held = Var("held", TensorType(Var("s", ShapeType(None, 2)), "float32"))
    assert found(Function((held,), SeqExpr((), held))) == [(1, "`s` is not defined")]


# Rule 13


def test_values_fit_their_variables() -> None:
    wide = TensorType((N, 3), "float32")
    program = function(plain(*bind((Var("y", wide), X + X))))
    assert found(program) == [(13, f"`y` is of type {wide}, but its value is of type {TY}")]
    cast = MatchCast(Var("y", wide), X, wide)
    assert found(function(plain(cast))) == [
        (13, f"the value is of type {TY}, which can never be {wide}")
    ]
    other = MatchCast(Var("y", ObjectType()), PAIR, TensorType())
    assert found(function(plain(other)))[0][0] == 13
    assert found(function(plain(MatchCast(Var("y", wide), X, TY)))) == [
        (13, f"`y` is of type {wide}, but its value is of type {TY}")
    ]


def test_results_fit_the_declared_type() -> None:
    fault = only(function(ret_ty=PrimType("int64")))
    assert fault.rule == 13
    assert fault.message == (
        f'the function is declared to return R.Prim("int64"), but its result is of type {TY}'
    )
    assert isinstance(fault.part, SeqExpr)
    assert fault.binding is None


def test_branches_fit_the_choice_and_conditions_are_flags() -> None:
    wrong = choice(FLAG, X)
    assert found(function(plain(*bind((Y, wrong))))) == [
        (13, f"the choice is of type {TY}, but a branch of {FLAG.ty}")
    ]
    wrong = replace(choice(X), cond=X)
    assert found(function(plain(*bind((Y, wrong))))) == [
        (13, f"the condition must be a scalar of dtype bool, found {TY}")
    ]
    host = replace(choice(X), cond=PrimExpr(True))
    assert faults(function(plain(*bind((Y, host))))) == []


def test_calls_fit_the_signature() -> None:
    callee = Function((Y,), SeqExpr((), Y), TY)
    f = IRModule({"f": callee}).get_global_var("f")

    def fault_of(call: Call) -> tuple[int, str]:
        caller = function(plain(*bind((Var("o", ObjectType()), call))))
        ((rule, message),) = found(IRModule({"f": callee, "main": caller}))
        return rule, message

    assert fault_of(replace(f(X, X), ty=TY)) == (13, "`f` takes 1 argument, but 2 were given")
    rule, message = fault_of(replace(f(FLAG), ty=TY))
    assert rule == 13
    assert message.startswith("argument 1 of `f` must be of type R.Tensor((n, 2)")
    rule, message = fault_of(Call(X, (), ty=TY))
    assert (rule, message[:45]) == (13, "`x` is called, but it is no function: its typ")


def test_calls_are_of_the_type_that_they_give() -> None:
    wrong = replace(X + X, ty=FLAG.ty)
    message = f"`relax.add` gives {TY} here, but the call is of type {FLAG.ty}"
    assert found(function(plain(*bind((Var("o", ObjectType()), wrong))))) == [(13, message)]


# Rule 14


def test_functions_are_called_with_their_type_of_today() -> None:
    callee = Function((Y,), SeqExpr((), Y), TY)
    old = IRModule({"f": callee})
    call = replace(old.get_global_var("f")(X), ty=TY)
    caller = function(plain(*bind((Z, call))))
    assert faults(old.with_function("main", caller)) == []
    renewed, _ = renew(callee)
    assert faults(IRModule({"f": renewed, "main": caller})) == []
    fault = only(IRModule({"f": replace(callee, ret_ty=ObjectType()), "main": caller}))
    assert fault.rule == 14
    assert fault.message == (
        f"`f` is used as {callee.ty}, but in the module it is {FuncType((TY,), ObjectType())}: "
        "take the variable from the module again (`get_global_var`)"
    )
