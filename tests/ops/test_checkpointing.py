"""Parts between checkpoint marks, written as calls of Python functions and of the program's own."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from parsing import parse_functions

from relaxjax.ir import BlockBuilder, Expr, IRModule, TensorType, Var, assert_structural_equal
from relaxjax.ir.op import get_op
from relaxjax.lowering import to_jax
from relaxjax.ops.checkpointing import emit_checkpoint, emit_checkpoint_sequential
from relaxjax.passes import Gradient
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.tvm.relax.testing import nn

V = TensorType((3,), "float32")
X, Y = jnp.asarray([0.1, 0.4, 0.9]), jnp.asarray([1.0, -0.5, 0.3])


def wave(x: Expr, scale: Expr) -> Expr:
    return get_op("relax.sin")(get_op("relax.exp")(x)) * scale


@I.ir_module
class Script:
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        with R.dataflow():
            a = R.grad.emit_checkpoint(wave, x, scale=y)
            b, c = R.grad.emit_checkpoint(lambda z: (R.cos(R.sin(z)), R.tanh(R.exp(z))), a)
            d = R.grad.emit_checkpoint_sequential([R.exp, R.sin, R.cos, R.tanh], 2, b)
            loss = R.sum(R.multiply(d, c))
            R.output(loss)
        return loss


SCRIPT: Any = Script  # mypy takes it for a class

WRITTEN_OUT = parse_functions("""
@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
    with R.dataflow():
        x_scp = R.grad.start_checkpoint(x)
        y_scp = R.grad.start_checkpoint(y)
        a = R.multiply(R.sin(R.exp(x_scp)), y_scp)
        a_ecp = R.grad.end_checkpoint(a)
        b = a_ecp
        b_scp = R.grad.start_checkpoint(b)
        c = R.cos(R.sin(b_scp))
        c_ecp = R.grad.end_checkpoint(c)
        d = R.tanh(R.exp(b_scp))
        d_ecp = R.grad.end_checkpoint(d)
        e = c_ecp
        f = d_ecp
        e_scp = R.grad.start_checkpoint(e)
        g = R.sin(R.exp(e_scp))
        g_ecp = R.grad.end_checkpoint(g)
        h = R.tanh(R.cos(g_ecp))
        i = h
        loss = R.sum(R.multiply(i, f))
        R.output(loss)
    return loss
""")


def names(module: IRModule, name: str) -> list[str]:
    return [binding.var.name for binding in module[name].body.bindings()]


def test_in_a_script_the_marks_are_written_out() -> None:
    assert_structural_equal(SCRIPT, WRITTEN_OUT)
    assert [name for name in names(SCRIPT, "main") if name.endswith("_scp")] == [
        *("x_scp", "y_scp", "a_scp", "b_scp")
    ]


def test_the_gradient_computes_again_what_stands_between() -> None:
    adjoint = Gradient("main")(SCRIPT)
    again = [name for name in names(adjoint, "main_adjoint") if name.endswith("_cp")]
    assert sorted(again) == [f"lv{i}_cp" for i in (1, 3, 5, 6, 7, 8, "")]
    expected = jax.value_and_grad(to_jax(SCRIPT, "main"), (0, 1))(X, Y)
    chex.assert_trees_all_close(to_jax(adjoint, "main_adjoint")(X, Y), expected, rtol=1e-5)


def test_with_a_builder_by_the_names_of_tvm() -> None:
    """A function may emit what it computes, and need not."""
    builder, x, y = BlockBuilder(), Var("x", V), Var("y", V)

    def emitting(x: Expr, scale: Expr) -> Expr:
        return nn.emit(wave(x, scale), "a")

    with builder.function("main", [x, y]):
        with builder.dataflow():
            a = nn.emit_checkpoint(emitting, x, scale=y)
            last = nn.emit_checkpoint_sequential([get_op("relax.exp"), get_op("relax.sin")], [0], a)
            out = builder.emit_output(last)
        builder.emit_func_output(out)
    assert names(builder.get(), "main") == [
        *("x_scp", "y_scp", "lv", "lv1", "a", "a_ecp", "lv2", "lv3", "gv")
    ]


def chain(count: int, segments: Any, last: bool) -> list[int]:
    """How many functions stand between marks, segment by segment."""
    builder, x = BlockBuilder(), Var("x", V)
    with builder.function("main", [x]):
        exps = [get_op("relax.exp")] * count
        builder.emit_func_output(emit_checkpoint_sequential(exps, segments, x, last))
    inside = builder.get()["main"].script().split("start_checkpoint")[1:]
    return [text.split("end_checkpoint")[0].count("R.exp") for text in inside]


@pytest.mark.parametrize(
    ("count", "segments", "last", "lengths"),
    [
        (4, 2, False, [2]),
        (4, 2, True, [2, 2]),
        (5, 2, True, [2, 2, 1]),
        (5, [0, 4], False, [4]),
        (5, [0, 1, 5], True, [1, 4]),
        (3, 1, False, []),
    ],
)
def test_segments(count: int, segments: Any, last: bool, lengths: list[int]) -> None:
    assert chain(count, segments, last) == lengths


CALLED = parse_functions("""
@R.function(private=True)
def wave(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = R.sin(R.exp(x))
    return y

@R.function
def main(x: R.Tensor((3,), "float32")):
    @R.function
    def inner(z: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        r = R.multiply(R.cos(z), x)
        return r
    a = R.grad.emit_checkpoint(Module.wave, R.exp(x))
    b = R.grad.emit_checkpoint(inner, a)
    loss = R.sum(b)
    return loss
""")


def test_functions_of_the_program_stand_between_marks_too() -> None:
    assert CALLED["main"].script().count("end_checkpoint") == 2
    expected = jax.value_and_grad(to_jax(CALLED, "main"))(X)
    value, (gradient,) = to_jax(Gradient("main")(CALLED), "main_adjoint")(X)
    chex.assert_trees_all_close((value, gradient), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (0, "`segments` must be from 1 to 3, the number of functions, found 0"),
        (4, "`segments` must be from 1 to 3, the number of functions, found 4"),
        ([1], r"from 0 on and growing, below 3, found \[1\]"),
        ([0, 2, 2], r"from 0 on and growing, below 3, found \[0, 2, 2\]"),
        ([0, 7], r"from 0 on and growing, below 3, found \[0, 7\]"),
    ],
)
def test_segments_that_cannot_be(segments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chain(3, segments, False)


def test_what_is_no_block() -> None:
    x = Var("x", V)
    builder = BlockBuilder()
    with builder.scope():
        with pytest.raises(TypeError, match="must give an expression, or several, but it gives 3"):
            emit_checkpoint(lambda x: 3, x)
        with pytest.raises(TypeError, match="`f` takes its arguments by position, not by name"):
            emit_checkpoint(Var("f"), x=x)
    with pytest.raises(ValueError, match="no builder is open: write `with builder"):
        emit_checkpoint(wave, x, x)
