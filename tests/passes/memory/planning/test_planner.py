"""What plans keep whatever their policy, and what they compute again because it is cheap."""

from collections import Counter

import numpy as np
import pytest
from legal_adjoints import prepared
from parsing import parse_functions

from relaxjax.ir import BlockBuilder, IRModule, TensorType, Var
from relaxjax.ir.expr import Constant
from relaxjax.ir.op import get_op
from relaxjax.passes import (
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    Sequential,
    SimplifyGradient,
)
from relaxjax.passes.memory.planning.plan import Plan
from relaxjax.passes.memory.planning.planner import Planner, _dear_sums, _with_short_chains
from relaxjax.passes.memory.program.cuts import cheapest_cut
from relaxjax.passes.memory.program.program import Program
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
    return prepared(Gradient("main", require_grads=[*weights, *factors])(builder.get()))


def test_the_factors_of_a_norm_are_kept() -> None:
    """So its data waits, and for the gradient of the variance what that is the root of."""
    mod = norms()
    planner = Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))
    waiting = [task for task in planner.free.tasks if task.again and task.waits]
    assert [task.step.numbers for task in waiting] == [ROWS * WIDTH, WIDTH] * LAYERS


def test_a_light_plan_computes_no_function_and_no_sum_again() -> None:
    builder = BlockBuilder()
    types = [TensorType((ROWS, WIDTH), "float32"), *[TensorType((WIDTH, WIDTH), "float32")] * 4]
    x, *weights = given = [Var(f"v{i}", ty) for i, ty in enumerate(types)]
    with builder.function("main", given):
        with builder.dataflow():
            h = x
            for i, weight in enumerate(weights):
                product = builder.emit(R.matmul(h, weight))
                h = builder.emit(R.tanh(product) if i % 2 else R.nn.relu(product))
                h = builder.emit(R.subtract(h, R.mean(h, axis=1, keepdims=True)))
            loss = builder.emit_output(R.sum(R.multiply(h, h)))
        builder.emit_func_output(loss)
    mod = prepared(Gradient("main", require_grads=weights)(builder.get()))
    planner = Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))

    def again(plan: Plan) -> set[str]:
        return {t.step.op.name for t in plan.tasks if t.again and t.step.op is not None}

    assert "lax.tanh" in again(planner.free)
    assert "lax.sub" in again(planner.light)
    assert "lax.tanh" not in again(planner.light)
    sums = [step for step in planner.program.forward if step.is_reduction]
    assert all(map(planner.is_free, sums))
    assert not any(map(planner.is_light, sums))
    assert planner.light.peak < planner.none.peak


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
    mod = prepared(Gradient("main", require_grads=weights)(builder.get()))
    planner = Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))
    again = Counter(task.step.op for task in planner.free.tasks if task.again)
    assert again[get_op("lax.mul")]
    assert not again[get_op("lax.rsqrt")]


@pytest.mark.parametrize("is_large", [False, True])
def test_a_budget_places_no_plan_that_computes_more_again(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod, limits = norms(), "relaxjax.passes.memory.planning.planner."
    program = Program.of(mod["main_adjoint"], mod, "main_adjoint")
    monkeypatch.setattr(f"{limits}_SMALL", 8)
    monkeypatch.setattr(f"{limits}_LARGE", 16 if is_large else 2000)
    planner = Planner(program)
    plan = planner.within(int(0.75 * planner.none.peak))
    assert plan is not None
    least, *others = sorted(planner.candidates, key=lambda plan: plan.extra)
    assert plan.extra <= least.extra or least.peak > 0.75 * planner.none.peak
    unplaced = [other for other in others if "run" not in vars(other)]
    assert unplaced
    assert all(other.extra >= plan.extra for other in unplaced)


def depthwise_adjoint(size: int) -> IRModule:
    """That of a depthwise convolution with such a kernel, whose result it needs, legalised."""
    attrs = f'padding={size // 2}, groups=4, data_layout="NHWC"'
    kernel = 4, 1, size, size
    module = parse_functions(f"""
    @R.function
    def main(x: R.Tensor((4, 8, 8, 4), "float32"), w: R.Tensor({kernel}, "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, {attrs})
            z = R.sum(R.exp(R.multiply(R.sin(y), R.cos(y))))
            R.output(z)
        return z
    """)
    return LegalizeOps("cpu")(SimplifyGradient()(Gradient("main", ["w"])(module)))


@pytest.mark.parametrize(("size", "is_dear"), [(3, False), (5, True)])
def test_what_adds_up_many_shifts_is_not_computed_again(size: int, is_dear: bool) -> None:
    module = depthwise_adjoint(size)
    program = Program.of(module["main_adjoint"], module, "main_adjoint")
    dear = _dear_sums(program.forward)
    kept = cheapest_cut(program, Planner(program).is_free)
    assert bool(dear) is bool(kept & dear) is is_dear
    whole = 4 * 8 * 8 * 4 * 4  # bytes of the result
    assert any(program.step_of[var].size == whole for var in kept) is is_dear


def test_a_slice_of_a_constant_shifts_nothing() -> None:
    """As the places of a model of which a batch needs the first ones."""
    builder, x = BlockBuilder(), Var("x", TensorType((3, 4), "float32"))
    table = Constant(np.arange(20, dtype="float32").reshape(5, 4))
    with builder.function("main", [x]):
        with builder.dataflow():
            rows = builder.emit(R.strided_slice(table, [0], [0], [3]))
            loss = builder.emit_output(R.sum(R.exp(R.multiply(R.sin(x), rows))))
        builder.emit_func_output(loss)
    mod = LegalizeOps("cpu")(Gradient("main")(builder.get()))
    program = Program.of(mod["main_adjoint"], mod, "main_adjoint")
    assert any(step.op is get_op("lax.slice") for step in program.forward)
    assert not _dear_sums(program.forward)


SUMS_OF_SUMS = parse_functions("""
    @R.function
    def main_adjoint(x: R.Tensor((64, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(a, w)
            c = R.matmul(b, w)
            d = R.matmul(c, w)
            e = R.matmul(d, w)
            a_mean = R.mean(a)
            ab = R.nn.relu(R.add(R.subtract(a, a_mean), b))
            abc = R.nn.relu(R.add(ab, c))
            abcd = R.nn.relu(R.add(abc, d))
            abcde = R.nn.relu(R.add(abcd, e))
            loss = R.sum(abcde)
            g = R.ones((64, 64), "float32")
            g_e = R.multiply(g, R.exp(abcde))
            g_d = R.multiply(g_e, R.exp(abcd))
            g_c = R.multiply(g_d, R.exp(abc))
            g_b = R.multiply(g_c, R.exp(ab))
            g_w = R.matmul(R.permute_dims(x), g_b)
            R.output(loss, g_w)
        return (loss, (g_w,))
    """)
SUMS = Program.of(SUMS_OF_SUMS["main_adjoint"], SUMS_OF_SUMS, "main_adjoint")


def named(*names: str) -> frozenset[Var]:
    return frozenset(step.var for step in SUMS.forward if step.var.name in names)


def test_a_sum_of_more_than_three_is_kept() -> None:
    kept = named("a", "b", "c", "d", "e", "a_mean")
    more = _with_short_chains(SUMS, kept)
    (sum_of_four,) = more - kept
    (relu,) = named("abcd")
    assert SUMS.step_of[relu].inputs == (sum_of_four,)


def test_what_is_small_beside_a_value_is_none_of_its_sources() -> None:
    kept = named("a", "b", "c", "a_mean", "abcd", "e")
    assert _with_short_chains(SUMS, kept) == kept


def test_the_policy_free_keeps_chains_short() -> None:
    layers = range(8)
    wide = Var("wide", TensorType((64, 1024), "float32"))
    weights = [Var(f"w{i}", TensorType((64, 64), "float32")) for i in layers]
    x = Var("x", TensorType((256, 64), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, *weights, wide]):
        with builder.dataflow():
            total = builder.emit(R.tanh(x))
            for weight in weights:
                product = builder.emit(R.matmul(R.nn.relu(total), weight))
                total = builder.emit(R.add(total, R.tanh(product)))
            loss = builder.emit_output(R.sum(R.tanh(R.tanh(R.matmul(total, wide)))))
        builder.emit_func_output(loss)
    mod = Sequential([Gradient("main"), LegalizeOps(), EliminateCommonSubexpr()])(builder.get())
    planner = Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))
    assert planner.free is not planner.none
    steps = [step for step in planner.program.forward if step.var in planner.free.kept]
    sums = [step for step in steps if step.op is get_op("lax.add")]
    assert len(sums) == 2  # of eight
