"""Well-formedness: the rules of names and forms, with a test for each."""

import pytest
from faulty_programs import (
    LV,
    NESTED,
    PAIR,
    TY,
    N,
    X,
    Y,
    Z,
    bind,
    choice,
    flow,
    found,
    function,
    plain,
)
from full import how_many
from hypothesis import given, settings
from strategies import modules

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax import Function, FuncType, IRModule, ObjectType, SeqExpr, TupleType
from relaxjax.ir.check import check_well_formed, faults, variable_faults, well_formed
from relaxjax.ir.expr import (
    Call,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    const,
)
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew

# What is right


@given(modules())
@settings(max_examples=how_many(40, 1000))
def test_what_the_builder_makes_is_well_formed(module: IRModule) -> None:
    assert faults(module) == []
    assert check_well_formed(module)
    well_formed(module)
    for one in module.relax_functions().values():
        assert faults(one) == []


def test_scopes_see_outside() -> None:
    inside = SeqExpr((plain(*bind((Y, X + X))),), Y)
    param, out = Var("p", TY), Var("out", TY)
    this = Var("this", FuncType((TY,), TY))
    closure = Function((param,), SeqExpr((), Tuple((this, param, X))))
    module = function(
        flow(*bind((LV, X + X), (out, LV))), plain(*bind((Z, choice(inside)), (this, closure)))
    )
    assert faults(module) == []


def test_leaves_of_all_kinds() -> None:
    leaves = (
        const(1.0),
        ShapeExpr((N,)),
        PrimExpr(N),
        GlobalVar("f"),
        ExternFunc("e"),
        Tuple((X,)),
    )
    call = Call(ExternFunc("f"), leaves, ty=ObjectType())
    assert faults(function(plain(*bind((Var("o", ObjectType()), call))), pure=False)) == []


# Rule 1


def test_a_variable_must_be_defined() -> None:
    assert found(function(result=Y)) == [(1, "`y` is not defined")]
    assert found(function(plain(*bind((Z, X + Y))))) == [(1, "`y` is not defined")]


def test_a_variable_must_be_defined_before_it_is_used() -> None:
    program = function(plain(*bind((Z, X + Y), (Y, X + X))))
    assert found(program) == [(1, "`y` is used before it is defined")]


def test_a_variable_is_defined_once() -> None:
    message = "`y` is defined a second time: every variable is defined once"
    assert found(function(plain(*bind((Y, X), (Y, X))))) == [(1, message)]
    assert found(function(plain(*bind((X, X)))))[0][1].startswith("`x` is defined a second time")
    assert found(Function((X, X), SeqExpr((), X)))[0][1].startswith("`x` is defined a second time")
    twice = choice(SeqExpr((plain(*bind((Y, X))),), Y), SeqExpr((plain(*bind((Y, X))),), Y))
    assert found(function(plain(*bind((Z, twice))))) == [(1, message)]


def test_a_variable_belongs_to_one_function() -> None:
    other = Var("other", TY)
    module = IRModule(
        {"f": function(plain(*bind((Y, X)))), "g": Function((other,), SeqExpr((), Y))}
    )
    assert found(module) == [(1, "`y` belongs to another function")]
    both = IRModule({"f": function(plain(*bind((Y, X)))), "g": renewed_but(Y)})
    assert found(both) == [(1, "`y` is defined a second time: every variable is defined once")]


def renewed_but(kept: Var) -> Function:
    """A function that shares one of its variables with others."""
    other = Var("other", TY)
    return Function((other,), SeqExpr((plain(*bind((kept, other))),), kept))


def test_what_a_closure_defines_stays_in_it() -> None:
    closure = Function((Y,), SeqExpr((), Y), TY)
    program = function(plain(*bind((Var("f", closure.ty), closure))), result=Y)
    assert found(program) == [(1, "`y` belongs to another function")]


def test_a_function_that_is_called_must_be_in_the_module() -> None:
    caller = function(plain(*bind((Y, Call(GlobalVar("mian"), (X,), ty=TY)))), pure=False)
    message = "the module has no function `mian`; did you mean `main`?"
    assert found(IRModule({"main": caller})) == [(1, message)]
    assert faults(caller) == []


# Rules 2 and 3


def test_a_public_function_is_known_by_its_name() -> None:
    named = function(attrs={"global_symbol": "g"})
    message = (
        "the function `f` has the `global_symbol` 'g': "
        'give the module its `with_attr("global_symbol", "f")`'
    )
    assert found(IRModule({"f": named})) == [(2, message)]
    assert faults(IRModule({"f": named.with_attr("global_symbol", "f")})) == []
    assert faults(IRModule({"g": named})) == []
    assert faults(named) == []


def test_a_variable_is_a_parameter_of_one_function() -> None:
    shared = IRModule({"f": function(), "g": Function((X,), SeqExpr((), X))})
    message = "`x` is a parameter of `f` too: give each function variables of its own (`renew`)"
    assert found(shared) == [(3, message)]
    copy, _ = renew(function())
    assert faults(shared.with_function("g", copy)) == []


# Rules 4 and 5


def test_a_dataflow_variable_is_used_in_its_block() -> None:
    program = function(flow(*bind((LV, X + X))), plain(*bind((Y, LV + X))))
    message = "`lv` is used outside its dataflow block: make it an output of the block"
    assert found(program) == [(4, message)]
    assert found(function(flow(*bind((LV, X + X))), result=LV)) == [(4, message)]
    other = flow(*bind((Y, LV)))
    assert found(function(flow(*bind((LV, X + X))), other)) == [(4, message)]


def test_a_dataflow_variable_is_defined_in_a_dataflow_block() -> None:
    message = "the dataflow variable `lv` is defined outside a dataflow block"
    assert found(function(plain(*bind((LV, X + X))))) == [(4, message)]
    message = "the parameter `lv` is a dataflow variable"
    assert found(Function((LV,), SeqExpr((), LV))) == [(4, message)]


def test_what_a_branch_defines_stays_in_it() -> None:
    branch = SeqExpr((plain(*bind((Y, X + X))),), Y)
    program = function(plain(*bind((Z, choice(branch)))), result=Tuple((Y, Z)))
    message = "`y` is defined in a branch, and used outside: make it the result"
    assert found(program) == [(5, message)]
    other = choice(SeqExpr((plain(*bind((Y, X + X))),), Y), Y)
    assert found(function(plain(*bind((Z, other))))) == [(5, message)]


# Rules 6 and 7


def test_a_sequence_is_no_value() -> None:
    nested = SeqExpr((plain(*bind((Y, X + X))),), Y)
    assert found(function(plain(*bind((Z, nested))))) == [
        (6, "a sequence is the value of a binding")
    ]
    assert found(function(result=nested)) == [(6, "a sequence is the result of another")]
    message = "argument 1 of `relax.negative` is a sequence: bind it to a variable first"
    program = function(plain(*bind((Z, replace(-X, args=(nested,))))))
    assert (7, message) in found(program)
    assert (6, "a sequence is the value of a binding") in found(program)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (X + NESTED, "argument 2 of `relax.add`"),
        (Tuple((X, Tuple((NESTED,)))), "a field of a tuple"),
        (TupleGetItem(Tuple((NESTED, X)), 1), "a field of a tuple"),
        (Call(GlobalVar("f", ty=FuncType()), (NESTED,), ty=TY), "argument 1 of `f`"),
    ],
    ids=str,
)
def test_arguments_are_leaves(value: Expr, what: str) -> None:
    message = f"{what} is `R.add(x, x)`: bind it to a variable first"
    assert found(function(plain(*bind((Var("o", ObjectType()), value))))) == [(7, message)]


def test_conditions_callees_tuples_and_results_are_leaves() -> None:
    less = X < X
    nested = replace(choice(X), cond=TupleGetItem(PAIR, 0))
    assert found(function(plain(*bind((Y, nested)))))[0] == (
        7,
        "the condition is `pair[0]`: bind it to a variable first",
    )
    assert (7, "the result is `R.less(x, x)`: bind it to a variable first") in found(
        function(result=less)
    )
    closure = Function((Y,), SeqExpr((), Y), TY)
    called = function(plain(*bind((Z, Call(closure, (X,), ty=TY)))))
    assert found(called) == [(7, "the callee is a function: bind it to a variable first")]
    inner = Var("inner", TupleType((TupleType((TY,)),)))
    field = TupleGetItem(TupleGetItem(inner, 0), 0)
    program = Function((inner,), SeqExpr((plain(*bind((Z, field))),), Z))
    assert found(program) == [
        (7, "the tuple whose field is taken is `inner[0]`: bind it to a variable first")
    ]
    chosen = function(plain(*bind((Y, Tuple((choice(X),))))))
    assert (7, "a field of a tuple is a choice between branches: bind it to a variable first") in (
        found(chosen)
    )


def test_only_programs_can_be_checked() -> None:
    with pytest.raises(TypeError, match="a module or a function can be checked, but `3` of type"):
        faults(3)  # type: ignore[arg-type]  # what is tested


# Variables alone


def test_the_check_of_variables_finds_what_is_not_bound_and_infers_no_type() -> None:
    unbound, wrong = Var("unbound", TY), replace(X + X, ty=TupleType(()))
    (only,) = variable_faults(function(plain(*bind((Y, wrong), (Z, X + unbound)))))
    assert (only.rule, only.message) == (1, "`unbound` is not defined")
    assert variable_faults(function(plain(*bind((Y, wrong))))) == []
    assert 13 in [rule for rule, _ in found(function(plain(*bind((Y, wrong)))))]
