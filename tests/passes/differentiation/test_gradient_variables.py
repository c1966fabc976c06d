"""A variable that cannot be seen where it is used would count as a constant: it is refused."""

from collections.abc import Callable

import pytest
from parsing import parse_flow

from relaxjax.ir import BlockBuilder, DataflowBlock, IRModule, SeqExpr, TensorType, Var
from relaxjax.ir.node import replace
from relaxjax.passes import Gradient, GradientError, HessianVectorProduct, Jvp, Pass
from relaxjax.script import relax as R

ROW = TensorType((3,), "float32")
FREE = (
    r"no gradient is known for `{}`, where `free` is not defined: bind each variable once, before"
)


def with_free_variable(private: bool = False) -> IRModule:
    builder, x = BlockBuilder(), Var("x", ROW)
    with builder.function("scaled", [x], private=private):
        with builder.dataflow():
            total = builder.emit_output(R.sum(R.multiply(x, Var("free", ROW))))
        builder.emit_func_output(total)
    return builder.get()


@pytest.mark.parametrize("derivative", [Gradient, Jvp, HessianVectorProduct])
def test_a_free_variable(derivative: Callable[[str], Pass]) -> None:
    with pytest.raises(GradientError, match=FREE.format("scaled")):
        derivative("scaled")(with_free_variable())


def test_a_free_variable_of_a_function_that_is_called() -> None:
    mod, x = with_free_variable(private=True), Var("x", ROW)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(mod.get_global_var("scaled")(x)))
    mod = mod.with_function("main", builder.get()["main"])
    with pytest.raises(GradientError, match=FREE.format("scaled")):
        Gradient("main")(mod)


def test_a_variable_that_is_used_before_it_is_bound() -> None:
    f = parse_flow("y = R.exp(x)\nz = R.sum(y)\nreturn z", x=(3,))["main"]
    (block,) = f.body.blocks
    swapped = DataflowBlock(block.bindings[::-1])
    mod = IRModule({"main": replace(f, body=SeqExpr((swapped,), f.body.body))})
    with pytest.raises(GradientError, match="for `main`, where `y` is used before it is defined"):
        Gradient("main")(mod)
