"""What is nested twice as the very same object is computed once."""

from relaxjax.ir import BlockBuilder, TensorType, Var
from relaxjax.ops.core import print_ as write
from relaxjax.ops.unary import exp, sin

X = Var("x", TensorType((2,), "float32"))


def values(builder: BlockBuilder) -> list[str]:
    """The values of the bindings of the function that was built."""
    return [str(b.value) for b in builder.get()["main"].body.bindings()]


def test_a_shared_expression_is_bound_once() -> None:
    builder = BlockBuilder()
    with builder.function("main", [X]):
        wave = sin(X)
        builder.emit_func_output(wave + exp(wave))
    assert values(builder) == ["R.sin(x)", "R.exp(gv)", "R.add(gv, gv1)"]


def test_equal_expressions_that_are_not_the_same_stay_two() -> None:
    builder = BlockBuilder()
    with builder.function("main", [X]):
        builder.emit_func_output(sin(X) + sin(X))
    assert values(builder) == ["R.sin(x)", "R.sin(x)", "R.add(gv, gv1)"]


def test_a_variable_of_a_closed_dataflow_block_is_not_taken_up_again() -> None:
    builder = BlockBuilder()
    with builder.function("main", [X]):
        wave = sin(X)
        with builder.dataflow():
            inner = builder.emit_output(exp(wave))
        builder.emit_func_output(inner + wave)
    assert values(builder) == ["R.sin(x)", "R.exp(lv)", "R.sin(x)", "R.add(gv, gv1)"]


def test_effects_happen_as_often_as_they_are_written() -> None:
    builder = BlockBuilder()
    with builder.function("main", [X], pure=False):
        told = write(X)
        builder.emit_func_output((told, told))
    assert len(values(builder)) == 2
