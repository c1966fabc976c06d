"""What plans keep whatever their policy."""

from collections import Counter

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, SimplifyGradient
from relaxjax.passes.memory.planning import Planner
from relaxjax.passes.memory.program import Program
from relaxjax.script import relax as R

LAYERS, ROWS, WIDTH = 5, 512, 64


def norms() -> IRModule:
    """The adjoint of layers with a batch norm each."""
    builder = BlockBuilder()
    x = Var("x", TensorType((ROWS, WIDTH), "float32"))
    weights = [Var(f"w{i}", TensorType((WIDTH, WIDTH), "float32")) for i in range(LAYERS)]
    factors = [
        Var(f"{name}{i}", TensorType((WIDTH,), "float32")) for i in range(LAYERS) for name in "gb"
    ]
    with builder.function("main", [x, *weights, *factors]):
        with builder.dataflow():
            h = x
            for i, w in enumerate(weights):
                h = builder.emit(R.matmul(h, w))
                mean = builder.emit(R.mean(h, axis=0))
                centred = builder.emit(R.subtract(h, mean))
                variance = builder.emit(R.mean(R.multiply(centred, centred), axis=0))
                scale = builder.emit(R.rsqrt(R.add(variance, R.const(1e-5, "float32"))))
                normed = builder.emit(R.multiply(R.multiply(centred, scale), factors[2 * i]))
                h = builder.emit(R.nn.relu(R.add(normed, factors[2 * i + 1])))
            loss = builder.emit_output(R.sum(R.multiply(h, h)))
        builder.emit_func_output(loss)
    mod = Gradient("main", require_grads=[*weights, *factors])(builder.get())
    for one in (SimplifyGradient(), LegalizeOps(), EliminateCommonSubexpr()):
        mod = one(mod)
    return mod


def test_the_factors_of_a_norm_are_kept() -> None:
    """So its data waits, and for the gradient of the variance what that is the root of."""
    mod = norms()
    planner = Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))
    waiting = [task for task in planner.free.tasks if task.again and task.waits]
    assert [task.step.numbers for task in waiting] == [ROWS * WIDTH, WIDTH] * LAYERS


def test_what_is_dear_and_small_is_kept() -> None:
    """It takes a kernel of its own: of a batch norm, what the centred data is multiplied by."""
    builder = BlockBuilder()
    x = Var("x", TensorType((ROWS, WIDTH), "float32"))
    weights = [Var(f"w{i}", TensorType((WIDTH, WIDTH), "float32")) for i in range(LAYERS)]
    numbers = [Var(name, TensorType((WIDTH,), "float32")) for name in ("g", "b", "mean", "var")]
    with builder.function("main", [x, *weights, *numbers]):
        with builder.dataflow():
            h = x
            for w in weights:
                normed = builder.emit(R.nn.batch_norm(R.matmul(h, w), *numbers, axis=1))
                h = builder.emit(R.nn.relu(builder.emit(normed[0])))
            loss = builder.emit_output(R.sum(R.multiply(h, h)))
        builder.emit_func_output(loss)
    mod = Gradient("main", require_grads=weights)(builder.get())
    for one in (SimplifyGradient(), LegalizeOps(), EliminateCommonSubexpr()):
        mod = one(mod)
    planner = Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))
    again = Counter(task.step.op for task in planner.free.tasks if task.again)
    assert again[get_op("lax.mul")]
    assert not again[get_op("lax.rsqrt")]
