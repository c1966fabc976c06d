"""The names that variables have in the text, found without the text."""

from collections.abc import Sequence
from typing import Any

import pytest

from relaxjax import TensorType, TupleType
from relaxjax.ir.builder import make_function
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import (
    Expr,
    Tuple,
    Var,
)
from relaxjax.ir.function import (
    BindingBlock,
    Function,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.print_options import PrintOptions
from relaxjax.ir.printer import _Printer, variable_names

VECTOR = TensorType((3,), "float32")


N = SymbolicVar("n")


X = Var("x", VECTOR)


def function_of(*bindings: VarBinding, result: Expr, params: Sequence[Var]) -> Function:
    return make_function(params, SeqExpr((BindingBlock(bindings),), result))


def _all_alike() -> Function:
    y, z = Var("y", VECTOR), Var("z", VECTOR)
    return function_of(VarBinding(y, X), VarBinding(z, y), result=z, params=[X])


def _of_one_name() -> Function:
    y, z = Var("y", VECTOR), Var("y", VECTOR)
    return function_of(VarBinding(y, X), VarBinding(z, y), result=z, params=[X])


def _of_one_name_from_outside() -> Function:
    """The variable from outside is named first, where it is used."""
    y, outer = Var("y", VECTOR), Var("y", VECTOR)
    use = VarBinding(Var("z", VECTOR), outer)
    return function_of(use, VarBinding(y, X), result=y, params=[X])


def _as_a_symbol() -> Function:
    x, n = Var("x", TensorType((N,), "float32")), Var("n", TensorType((N,), "float32"))
    return function_of(VarBinding(n, x), result=n, params=[x])


def _reserved() -> Function:
    y, z = Var("Module", VECTOR), Var("lambda", VECTOR)
    return function_of(VarBinding(y, X), VarBinding(z, y), result=z, params=[X])


def _with_a_closure() -> Function:
    y = Var("gv", VECTOR)
    inner = make_function([y], SeqExpr((), y))
    return function_of(VarBinding(Var("f", inner.ty), inner), result=X, params=[X])


def _with_a_closure_in_the_middle() -> Function:
    """What comes behind a closure is named after what is in it, and that after the closure."""
    inner = make_function([Var("y", VECTOR)], SeqExpr((), X))
    bindings = [VarBinding(Var("y", VECTOR), X) for _ in range(2)]
    closure = VarBinding(Var("y", inner.ty), inner)
    return function_of(bindings[0], closure, bindings[1], result=X, params=[X])


def _with_a_closure_for_a_result() -> Function:
    inner = make_function([Var("gv", VECTOR)], SeqExpr((), X))
    return function_of(VarBinding(Var("gv", VECTOR), X), result=inner, params=[X])


def _of_nothing() -> Function:
    state, unit = Var("y", TupleType(())), Var("y", TupleType(()))
    return function_of(VarBinding(unit, Tuple(())), result=state, params=[state])


def _with_two_closures() -> Function:
    """What is inside of each has the same name as what is inside of the other."""
    bindings = []
    for name in ("f", "g"):
        y = Var("y", VECTOR)
        inner = make_function([y], SeqExpr((), y))
        bindings.append(VarBinding(Var(name, inner.ty), inner))
    return function_of(*bindings, result=X, params=[X])


@pytest.mark.parametrize(
    "make",
    [
        _all_alike,
        _of_one_name,
        _of_one_name_from_outside,
        _as_a_symbol,
        _reserved,
        _with_a_closure,
        _with_a_closure_in_the_middle,
        _with_a_closure_for_a_result,
        _with_two_closures,
        _of_nothing,
    ],
)
def test_names_are_those_of_the_text(make: Any) -> None:
    """They are found without the text where each variable has its own."""
    function = make()
    printer = _Printer(PrintOptions())
    printer.document(function)
    assert variable_names(function) == printer.exprs.var_names
