"""Well-formedness: one test for each rule, and what a person is shown."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import modules

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.check import check_well_formed, faults, well_formed
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import (
    Call,
    DataflowVar,
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
from relaxjax.ir.fault import RULES, Fault, WellFormedError
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
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew
from relaxjax.ir.serialize import load_json, save_json
from relaxjax.ir.span import Span
from relaxjax.ir.types import (
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)

N, M = SymbolicVar("n"), SymbolicVar("m")
TY = TensorType((N, 2), "float32")
X, Y, Z = Var("x", TY), Var("y", TY), Var("z", TY)
LV = DataflowVar("lv", TY)
FLAG = Var("flag", TensorType((), "bool"))
PAIR = Var("pair", TupleType((TY, TY)))
EFFECT = Call(ExternFunc("effect"), (X,), ty_args=(TY,), ty=TY)


def bind(*pairs: tuple[Var, Expr]) -> tuple[VarBinding, ...]:
    return tuple(VarBinding(var, value) for var, value in pairs)


def plain(*bindings: Binding) -> BindingBlock:
    return BindingBlock(bindings)


def flow(*bindings: Binding) -> DataflowBlock:
    return DataflowBlock(bindings)


def function(*blocks: BindingBlock, result: Expr = X, **rules: Any) -> Function:
    """A function of `x`, `flag` and `pair`."""
    return Function((X, FLAG, PAIR), SeqExpr(blocks, result), **rules)


def found(program: IRModule | Function) -> list[tuple[int, str]]:
    return [(fault.rule, fault.message) for fault in faults(program)]


def only(program: IRModule | Function) -> Fault:
    (fault,) = faults(program)
    return fault


def choice(true: Expr, false: Expr = X, ty: Type = TY) -> If:
    branches = [seq if isinstance(seq, SeqExpr) else SeqExpr((), seq) for seq in (true, false)]
    return If(FLAG, *branches, ty=ty)


# What is right


@given(modules())
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
    assert found(IRModule({"f": named})) == [(2, "the function `f` has the `global_symbol` 'g'")]
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


def test_a_body_is_a_sequence() -> None:
    program = Function((X,), X, TY)  # type: ignore[arg-type]  # what is tested
    assert found(program) == [(6, "the body of a function must be a SeqExpr, found `x`")]
    cond = If(FLAG, X + X, SeqExpr((), X), ty=TY)  # type: ignore[arg-type]  # what is tested
    assert found(function(plain(*bind((Y, cond))))) == [
        (6, "a branch must be a SeqExpr, found `R.add(x, x)`")
    ]


NESTED = X + X


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
    nested = replace(choice(X), cond=TupleGetItem(Tuple((FLAG,)), 0))
    assert found(function(plain(*bind((Y, nested))))) == [
        (7, "the condition is `(flag,)[0]`: bind it to a variable first")
    ]
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
        "relax.add takes `x1`, `x2`, but the call has 1 arguments",
    )
    assert fault_of(replace(add, attrs=Attrs(axis=1))) == (
        11,
        "relax.add has no attribute `axis`",
    )
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
    assert found(Function((derived,), SeqExpr((), derived))) == [
        undefined("m", "the type of `d`"),
    ]
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

    assert fault_of(replace(f(X, X), ty=TY)) == (13, "`f` takes 1 arguments, but 2 were given")
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


# All faults, and how they are shown


def test_the_rules_are_numbered() -> None:
    assert list(RULES) == list(range(1, 15))


def test_all_faults_come_in_the_order_of_the_program() -> None:
    program = function(
        plain(*bind((LV, X + Y))), flow(*bind((Var("a", TY), EFFECT), (Z, X + NESTED))), result=Y
    )
    assert [fault.rule for fault in faults(program)] == [1, 4, 10, 7, 1]
    assert not check_well_formed(program)
    with pytest.raises(WellFormedError) as caught:
        well_formed(program)
    assert list(caught.value.faults) == faults(program)
    assert caught.value.program is program


def test_faults_say_where() -> None:
    span = Span("model.py", 7)
    binding = VarBinding(Z, X + Y, span=span)
    fault = only(IRModule({"main": function(plain(binding))}))
    assert fault.part is binding
    assert fault.binding is binding
    assert fault.function == "main"
    assert fault.span is span
    inner = Span("model.py", 8)
    located = VarBinding(Z, replace(X + NESTED, args=(X, replace(NESTED, span=inner))), span=span)
    assert only(function(plain(located))).span is inner
    assert str(fault) == f"in `main`: `y` is not defined (rule 1: {RULES[1]})"


def test_the_error_shows_the_lines_at_fault_and_the_users_own(tmp_path: Path) -> None:
    source = tmp_path / "model.py"
    source.write_text("z = x + y\n")
    span = Span(str(source), 1, 8, 1, 9)
    lines = plain(*bind((Var("a", TY), X), (Z, X + replace(X, span=span)), (Var("b", TY), X)))
    wrong = replace(lines, bindings=(lines.bindings[0], VarBinding(Z, X + Y, span=span)))
    wrong = replace(wrong, bindings=(*wrong.bindings, lines.bindings[2]))
    program = IRModule({"main": function(wrong, ret_ty=TY)})
    with pytest.raises(ValueError, match="not well-formed") as caught:
        well_formed(program)
    tensor = 'R.Tensor((n, 2), dtype="float32")'
    assert str(caught.value) == (
        "the module is not well-formed: 1 fault\n\n"
        f"1. in `main`: `y` is not defined (rule 1: {RULES[1]})\n"
        f"    a: {tensor} = x\n"
        f"  > z: {tensor} = R.add(x, y)\n"
        f"    b: {tensor} = x\n"
        f"  at {source}:1:9\n"
        "    z = x + y\n"
        "            ^"
    )


def test_faults_of_signatures_and_results_are_shown_too() -> None:
    with pytest.raises(WellFormedError) as caught:
        well_formed(Function((X,), SeqExpr((), Y), TensorType((M,)), span=Span("model.py", 1)))
    text = str(caught.value)
    assert text.startswith(
        "the function is not well-formed: 3 faults\n\n1. in `main`: the symbolic"
    )
    assert "  > def main(x: R.Tensor" in text
    assert "    m = T.int64()\n  > return y" in text
    assert "at model.py:1:1" in text


def test_a_fault_in_a_branch_or_a_closure_shows_its_own_line() -> None:
    closure = Function((Var("p", TY),), SeqExpr((plain(*bind((Z, X + Y))),), Z), TY)
    program = function(
        plain(*bind((Var("a", TY), choice(Y)), (Var("f", closure.ty), closure))), result=X
    )
    with pytest.raises(WellFormedError) as caught:
        well_formed(program)
    marked = [line for line in str(caught.value).split("\n") if line.startswith("  >")]
    tensor = 'R.Tensor((n, 2), dtype="float32")'
    assert [line.removeprefix("  >").strip() for line in marked] == [
        f"a: {tensor} = y",
        f"z: {tensor} = R.add(x, y)",
    ]


def test_many_faults_are_cut_short() -> None:
    many = plain(*bind(*((Var(f"v{index}", TY), X + Y) for index in range(30))))
    with pytest.raises(WellFormedError) as caught:
        well_formed(function(many))
    assert "30 faults" in str(caught.value)
    assert str(caught.value).endswith("and 10 more")
    assert len(caught.value.faults) == 30


def test_a_program_that_cannot_be_printed_is_told_its_faults_all_the_same() -> None:
    nameless = Var(3, TY)  # type: ignore[arg-type]  # what is tested
    broken = Function((nameless,), SeqExpr((), X), TY)
    with pytest.raises(AttributeError):
        str(broken)
    with pytest.raises(WellFormedError, match="`x` is not defined"):
        well_formed(broken)


def test_the_error_can_be_pickled() -> None:
    error = WellFormedError(function(), [])
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert isinstance(again, WellFormedError)


def nodes_of(module: IRModule) -> list[Any]:
    table: list[Any] = json.loads(save_json(module))["nodes"]
    return table


@given(modules(), st.data())
@settings(max_examples=200)
def test_no_program_is_too_broken_to_be_checked(module: IRModule, data: st.DataObject) -> None:
    """References in a saved program are mixed up: what still loads is checked and shown."""
    document = json.loads(save_json(module))
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(1, len(document["nodes"]) - 1))
        references = list(_references(document["nodes"][number]))
        if references:
            data.draw(st.sampled_from(references))["ref"] = data.draw(st.integers(0, number - 1))
    try:
        broken = load_json(json.dumps(document))
    except ValueError:
        return
    assert isinstance(broken, IRModule)
    if faults(broken):
        assert "not well-formed" in str(WellFormedError(broken, faults(broken)))


def _references(value: Any) -> Any:
    if isinstance(value, dict) and "ref" in value:
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _references(item)
