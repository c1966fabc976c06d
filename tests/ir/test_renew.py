"""Renewing variables and symbolic dimensions."""

import pytest

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import DataflowVar, Var
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import hide_unused_outputs, renew, substitute_symbols
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import ShapeType, TensorType, TupleType
from relaxjax.ir.walk import bound_vars, expr_symbols, free_vars, type_symbols
from relaxjax.script import from_source

N, M = SymbolicVar("n"), SymbolicVar("m")


def doubling() -> Function:
    """A function of a symbolic batch whose dataflow block has an output that nothing uses."""
    builder = BlockBuilder()
    x = Var("x", TensorType((N, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(x + x, "y")
            builder.emit_output(y + x, "unused")
            z = builder.emit_output(y + y, "z")
        builder.emit_func_output(z)
    function = builder.get()["main"]
    assert isinstance(function, Function)
    return function


@pytest.mark.parametrize("shapes", [[(N, M), (N,)], [(M, N)]])
def test_products_of_renewed_sizes_read_back_as_they_are_printed(
    shapes: list[tuple[SymbolicVar, ...]],
) -> None:
    """Each mention made a size anew, so that the order was that of the last ones."""
    builder = BlockBuilder()
    params = [Var(f"x{i}", TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(get_op("relax.reshape")(params[0], (N * M,))))
    function = builder.get()["main"]
    assert isinstance(function, Function)
    text = renew(function)[0].script()
    assert from_source(text).script() == text


def test_a_renewed_function_is_equal_and_shares_nothing() -> None:
    function = doubling()
    copy, renewed = renew(function)
    assert_structural_equal(copy, function)
    assert set(bound_vars(copy)).isdisjoint(bound_vars(function))
    assert set(expr_symbols(copy)).isdisjoint(expr_symbols(function))
    assert [renewed[var] for var in bound_vars(function)] == list(bound_vars(copy))
    assert free_vars(copy) == ()


def test_symbols_are_substituted_in_parameters_and_bindings() -> None:
    changed = substitute_symbols(doubling(), {N: 8})
    assert isinstance(changed, Function)
    assert [type_symbols(var.ty) for var in bound_vars(changed)] == [()] * 4
    assert changed.ret_ty == TensorType((8, 4), "float32")


def test_substituting_nothing_gives_the_very_function() -> None:
    function = doubling()
    assert substitute_symbols(function, {}) is function
    assert substitute_symbols(function, {SymbolicVar("m"): 3}) is function


def test_unused_outputs_are_hidden() -> None:
    hidden = hide_unused_outputs(doubling())
    kinds = {var.name: type(var) for var in bound_vars(hidden)}
    assert kinds == {"x": Var, "y": DataflowVar, "unused": DataflowVar, "z": Var}
    assert free_vars(hidden) == ()
    assert hide_unused_outputs(hidden) is hidden


def test_variables_that_hold_shapes_are_renewed_in_types_too() -> None:
    shape = Var("s", ShapeType(None, 2))
    held = Var("held", TensorType(shape, "float32"))
    function = Function(
        (shape, held), SeqExpr((), held), TupleType((TensorType(shape, "float32"),))
    )
    copy, renewed = renew(function)
    assert copy.ret_ty == TupleType((TensorType(renewed[shape], "float32"),))
    assert renewed[held].ty == TensorType(renewed[shape], "float32")
    assert_structural_equal(copy, function)


def test_a_hidden_shape_is_hidden_in_types_too() -> None:
    """What has the shape that a variable holds is of the type that names this very variable."""
    builder = BlockBuilder()
    x = Var("x", TensorType((N, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            shape = builder.emit_output(get_op("relax.shape_of")(x), "shape")
            ones = builder.emit_output(get_op("relax.ones")(shape, "float32"), "ones")
            total = builder.emit_output(get_op("relax.sum")(ones), "total")
        builder.emit_func_output(total)
    function = builder.get()["main"]
    assert isinstance(function, Function)
    held = {var.name: var for var in bound_vars(hide_unused_outputs(function))}
    assert isinstance(held["shape"], DataflowVar)
    assert isinstance(held["ones"].ty, TensorType)
    assert held["ones"].ty.shape is held["shape"]
