"""Adjoints planned as parts of the training steps that call them."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from parsing import parse_backbone, parse_functions

from relaxjax import SetupTrainer, to_jax
from relaxjax.ir import IRModule, TensorType, TupleType, assert_structural_equal
from relaxjax.losses import MSELoss
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.optim import Adam
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.program.caller import Caller
from relaxjax.passes.memory.program.in_place import with_reads_first
from relaxjax.passes.memory.program.program import Program
from relaxjax.trainable.names import ADJOINT as STEP_ADJOINT

STEP = "train_step"
STATE = (0, 1, 2)


ADJOINT = """
    @R.function
    def main_adjoint(
        x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 3), "float32"),
        v: R.Tensor((3, 3), "float32"),
    ) -> R.Tuple(
        R.Tensor((), "float32"), R.Tuple(R.Tensor((3, 3), "float32"), R.Tensor((3, 3), "float32"))
    ):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.matmul(y, v)
            gv = R.sum(z)
            z_adjoint = R.broadcast_to(R.const(1.0, "float32"), (4, 3))
            v_across = R.permute_dims(v)
            y_adjoint = R.matmul(z_adjoint, v_across)
            v_adjoint = R.matmul(R.permute_dims(y), z_adjoint)
            w_adjoint = R.matmul(R.permute_dims(x), y_adjoint)
            %s
        return (gv, %s)
"""


def test_a_gradient_waits_for_the_other_reads_of_its_parameter() -> None:
    """The adjoint of `y` reads `v`, too. The forward part of this program bears no gradient."""
    before = parse_functions(
        ADJOINT % ("R.output(gv, w_adjoint, v_adjoint)", "(w_adjoint, v_adjoint)")
    )
    after = parse_functions(
        ADJOINT
        % (
            """w_late = R.grad.delay(w_adjoint, y)
            v_late = R.grad.delay(v_adjoint, z)
            v_later = R.grad.delay(v_late, y_adjoint)
            R.output(gv, w_late, v_later)""",
            "(w_late, v_later)",
        )
    )
    found = with_reads_first(before, "main_adjoint", (1, 2))
    assert_structural_equal(found, after)
    assert with_reads_first(found, "main_adjoint", (1, 2)) is found


READ_OFTEN = """
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), b: R.Tensor((8,), "float32")):
        with R.dataflow():
            %s
            R.output(gv)
        return gv

    @R.function
    def main_adjoint(x: R.Tensor((4, 8), "float32"), b: R.Tensor((8,), "float32")):
        with R.dataflow():
            %s
            b_adjoint = R.sum(x, axis=0)
            R.output(gv, b_adjoint)
        return (gv, (b_adjoint,))
"""


@pytest.mark.parametrize(("reads", "waits"), [(4, 4), (5, 0)])
def test_a_gradient_waits_for_few_reads_alone(reads: int, waits: int) -> None:
    """As of a scale whose sums are read in each layer: a copy of it costs less."""
    sums = [f"s{i} = R.sum(R.add(R.multiply(x, R.const({i}.0)), b), axis=0)" for i in range(reads)]
    lines = "\n            ".join([*sums, f"gv = R.add(s0, s{reads - 1})"])
    mod = parse_functions(READ_OFTEN % (lines, lines))
    found = with_reads_first(mod, "main_adjoint", (1,))
    delayed = str(found["main_adjoint"].script(show_all_types=False)).count("R.grad.delay")
    assert delayed == waits


def trainable(model: IRModule, loss: Any, types: Any, **options: Any) -> IRModule:
    return SetupTrainer(loss, Adam(0.1), types, legalize=True, **options)(model)


def _weights(shape: tuple[int, ...]) -> dict[str, Any]:
    return dict.fromkeys(["w0", "w1", "w2"], shape)


LAYERS = parse_backbone(
    """
    a = R.nn.relu(R.nn.conv2d(x, w0, padding=1, data_layout="NHWC", kernel_layout="HWIO"))
    b = R.nn.relu(R.nn.conv2d(a, w1, padding=1, data_layout="NHWC", kernel_layout="HWIO"))
    c = R.nn.conv2d(b, w2, padding=1, data_layout="NHWC", kernel_layout="HWIO")
    """,
    param_num=3,
    x=(1, 8, 8, 48),
    **_weights((3, 3, 48, 48)),
)
TABLE = 'R.Tensor((512, 8), "float32")'
TABLES = parse_backbone(
    "scores = " + " * ".join(f"R.sum(R.take(t{i}, ids, axis=0), 1)" for i in range(8)),
    ", ".join(['ids: R.Tensor((4, 6), "int32")', *(f"t{i}: {TABLE}" for i in range(8))]),
    param_num=8,
)


@pytest.mark.parametrize(
    ("model", "loss", "types", "share"),
    [
        (LAYERS, MSELoss(), [(1, 8, 8, 48), (1, 8, 8, 48)], 0.8),
        (TABLES, MSELoss(), [(4, 8), (4, 8)], 0.7),
    ],
    ids=["weights of convolutions", "gradients of tables"],
)
def test_a_step_keeps_no_second_copy_of_its_parameters(
    model: IRModule, loss: Any, types: Any, share: float
) -> None:
    """Kernels turned round late, parameters changed in place, large gradients one by one."""
    tensors = [TensorType(shape, "float32") for shape in types]
    one, other = (trainable(model, loss, tensors, **o) for o in ({}, {"memory_policy": "free"}))
    taken = [temporary_bytes(mod, STEP, donate=STATE) for mod in (one, other)]
    assert taken[1] <= share * taken[0]
    args = [_arrays(param.ty) for param in one[STEP].params]
    results = [jax.jit(to_jax(mod, STEP))(*args) for mod in (one, other)]
    chex.assert_trees_all_close(*results, rtol=1e-5, atol=1e-6)


PERCEPTRON = parse_backbone(
    "a = R.nn.relu(R.matmul(x, w0))\nc = R.matmul(R.nn.relu(R.matmul(a, w1)), w2)",
    param_num=3,
    x=(8, 128),
    **_weights((128, 128)),
)


def test_copies_of_parameters_are_predicted() -> None:
    """XLA copies a weight that may change before it is read, the second into what the first was."""
    mod = trainable(PERCEPTRON, MSELoss(), [TensorType((8, 128), "float32")] * 2)
    function = function_of(mod, STEP_ADJOINT)
    plans = [
        Planner(Program.of(function, mod, STEP_ADJOINT, Caller(STEP, donate, ()))).none
        for donate in (STATE, ())
    ]
    taken = [temporary_bytes(mod, STEP, donate=donate) for donate in (STATE, ())]
    weight = 128 * 128 * 4
    assert taken[0] >= taken[1] + weight
    for plan, bytes_taken in zip(plans, taken, strict=True):
        assert 0.9 * bytes_taken <= plan.size <= 1.1 * bytes_taken


def test_large_gradients_of_tables_come_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is then gone before the next is there, and no number is another but by rounding."""
    types = [TensorType((4, 8), "float32")] * 2
    together = trainable(TABLES, MSELoss(), types)
    assert "R.grad.delay" not in together.script()
    monkeypatch.setattr("relaxjax.passes.memory.program.waits._LARGE", 512 * 8 * 4)
    in_turn = trainable(TABLES, MSELoss(), types)
    assert in_turn.script().count("R.grad.delay") == 8
    assert_structural_equal(in_turn, trainable(TABLES, MSELoss(), types, memory_policy="none"))
    taken = [temporary_bytes(mod, STEP, donate=STATE) for mod in (together, in_turn)]
    assert taken[1] <= 0.5 * taken[0]
    args = [_arrays(param.ty) for param in in_turn[STEP].params]
    results = [jax.jit(to_jax(mod, STEP))(*args) for mod in (together, in_turn)]
    chex.assert_trees_all_close(*results, rtol=1e-6, atol=1e-6)


def test_gradients_that_are_needed_together_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is taken or not looks at all of them before."""
    monkeypatch.setattr("relaxjax.passes.memory.program.waits._LARGE", 512 * 8 * 4)
    types = [TensorType((4, 8), "float32")] * 2
    mod = trainable(TABLES, MSELoss(), types, loss_scale="dynamic")
    assert "R.grad.delay" not in mod.script()


def _arrays(ty: Any) -> Any:
    if isinstance(ty, TupleType):
        return tuple(map(_arrays, ty.fields))
    random = np.random.default_rng(0)
    if not ty.dtype.startswith("float"):
        return np.ones(ty.shape, ty.dtype)
    return random.uniform(0.5, 1.0, size=ty.shape).astype(ty.dtype)
