"""Faults: all of them are found, and shown with the lines and places where they are."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from faulty_programs import (
    EFFECT,
    LV,
    NESTED,
    TY,
    M,
    X,
    Y,
    Z,
    bind,
    choice,
    flow,
    function,
    only,
    plain,
)
from full import how_many
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import modules

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax import IRModule, TensorType, Var
from relaxjax.ir import Function, SeqExpr, Span, VarBinding, load_json, save_json
from relaxjax.ir.check import check_well_formed, faults, well_formed
from relaxjax.ir.fault import RULES, WellFormedError
from relaxjax.ir.node import replace


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
    nameless = Var("x", TY)
    object.__setattr__(nameless, "name", 3)  # which no constructor takes
    broken = Function((nameless,), SeqExpr((), X), TY)
    with pytest.raises(TypeError):
        str(broken)
    with pytest.raises(WellFormedError, match="`x` is not defined"):
        well_formed(broken)


def test_the_error_can_be_pickled() -> None:
    error = WellFormedError(function(), [])
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert isinstance(again, WellFormedError)


@given(modules(), st.data())
@settings(max_examples=how_many(80, 2000))
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
