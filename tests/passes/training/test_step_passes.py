"""The passes from a loss to a training step, one by one: wherever the loss comes from."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from parsing import parse_functions

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.optim import SGD, from_optax
from relaxjax.passes import parse_pipeline, pipeline_text
from relaxjax.passes.training.asked_once import Optimizer
from relaxjax.passes.training.setup_trainer import StepOptions, step_passes

# No backbone: the loss may be one function that somebody wrote.
LOSS = """
    I.module_attrs({"input_num": 1, "param_num": 2, "state_num": 0})

    @R.function
    def backbone_loss(
        x: R.Tensor((4, 3), "float32"),
        w0: R.Tensor((3, 3), "float32"),
        w1: R.Tensor((3, 3), "float32"),
        targets: R.Tensor((4, 3), "float32"),
    ):
        with R.dataflow():
            h0 = R.tanh(R.matmul(x, w0))
            h1 = R.tanh(R.matmul(h0, w1))
            loss = R.mean(R.square(R.subtract(h1, targets)))
            R.output(loss)
        return loss
"""

LOWERED = [
    "SimplifyAdjoint",
    "LegalizeOps",
    "EliminateCommonSubexpr",
    "CanonicalizeBindings",
    "SumInLoops",
    "SumsAsProducts",
    "NarrowProducts",
    "ReduceBySlices",
    "StoreLevels",
    "StoreDraws",
    "StoreResults",
    "DelayWindows",
    "JoinByChoice",
    "PlanStepMemory",
    "UpdateInLoops",
]
BEFORE = ["MultiplyRowsOnce", "FuseProductLoss"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (
            StepOptions(optimizer=SGD(0.1)),
            [*BEFORE, "LossChannelsLast", "StoreKernels", "StackLayers", *LOWERED],
        ),
        (
            StepOptions(optimizer=from_optax(optax.lars(0.1))),
            [*BEFORE, "LossChannelsLast", *LOWERED],
        ),
        (StepOptions(optimizer=SGD(0.1), legalize=False, roll_blocks=False), []),
    ],
)
def test_the_passes_go_by_the_options(options: StepOptions, names: list[str]) -> None:
    passes = step_passes(parse_functions(LOSS), options)
    found = [one.info.name for one in passes]
    always = ["AppendAdjoint", "AppendOptimizer", "UpdateRows", "FuseTrainStep"]
    assert [name for name in found if name not in always] == names
    assert [name for name in found if name in always] == always


@pytest.mark.parametrize("optimizer", [SGD(0.1), from_optax(optax.sgd(0.1))])
def test_a_loss_without_a_backbone_trains(optimizer: Optimizer) -> None:
    mod = parse_functions(LOSS)
    options = StepOptions(optimizer=optimizer, roll_blocks=True)
    for one in step_passes(mod, options):
        mod = one(mod)
    drawn = np.random.default_rng(0).normal(size=(10, 3, 3)).astype("float32")
    weights, x, targets = list(drawn[:2]), drawn[2:6, 0], drawn[6:, 0]
    state = tuple(jnp.asarray(array.data) for array in mod.attrs["optim_state"])
    step = jax.jit(to_jax(mod, "train_step"))
    loss, (stack,), *_ = step((np.stack(weights),), (), state, x, targets)

    def by_hand(pair: list[jax.Array]) -> jax.Array:
        h = jnp.tanh(jnp.tanh(x @ pair[0]) @ pair[1])
        return jnp.mean(jnp.square(h - targets))

    wanted, gradients = jax.jit(jax.value_and_grad(by_hand))(weights)
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    for row, w, gradient in zip(stack, weights, gradients, strict=True):
        np.testing.assert_allclose(row, w - 0.1 * gradient, rtol=1e-4, atol=1e-6)


def test_passes_without_objects_are_a_pipeline_in_words() -> None:
    text = 'StoreKernels,StackLayers{roll_blocks=True},AppendAdjoint{loss_scale="dynamic"}'
    pipeline = parse_pipeline(text)
    mod = pipeline(parse_functions(LOSS))
    assert [param.name for param in mod["backbone_loss_adjoint"].params] == [
        "x",
        "w0_stack",
        "targets",
        "loss_cotangent",
    ]
    assert_structural_equal(parse_pipeline(pipeline_text(pipeline))(parse_functions(LOSS)), mod)
