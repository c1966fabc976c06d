"""A whole training step as one function."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from small_models import Counting

from relaxjax.ir import BindingBlock, IRModule, SymbolicVar, TensorType, assert_structural_equal
from relaxjax.ir.node import replace
from relaxjax.losses import MSELoss
from relaxjax.lowering import to_jax
from relaxjax.optim import SGD
from relaxjax.passes import FuseTrainStep, SetupTrainer

SCORES = TensorType((SymbolicVar("n"), 2), "float32")


def counting(**options: Any) -> IRModule:
    mod: Any = Counting
    return SetupTrainer(MSELoss("sum"), SGD(0.1), [SCORES, SCORES], legalize=False, **options)(mod)


def test_the_step_as_a_script() -> None:
    """A symbolic batch, a second output that is left out, and a state."""
    script = str(counting()["train_step"].script(show_all_types=False))
    body = script[script.index("with R.dataflow") :]
    assert [line.strip() for line in body.splitlines()] == [
        "with R.dataflow():",
        "calls = states[0]",
        "w = params[0]",
        "result = cls.backbone_loss_adjoint(x, w, calls, targets)",
        "gradients = result[1]",
        "outputs = result[0]",
        "lv = outputs[0]",
        "lv1 = outputs[1]",
        "lv2 = outputs[2]",
        "updated = cls.optimizer(params, gradients, optim_states)",
        "loss = lv",
        "params_new = updated[0]",
        "states_new = (lv2,)",
        "optim_states_new = updated[1]",
        "R.output(loss, params_new, states_new, optim_states_new)",
        "return (loss, params_new, states_new, optim_states_new)",
    ]
    params = counting()["train_step"].params
    assert [str(param.ty) for param in params] == [
        'R.Tuple(R.Tensor((2,), dtype="float32"))',
        'R.Tuple(R.Tensor((), dtype="float32"))',
        'R.Tuple(R.Tensor((), dtype="int64"))',
        'R.Tensor((n, 2), dtype="float32")',
        'R.Tensor((n, 2), dtype="float32")',
    ]


def test_the_step_of_an_impure_model_is_impure() -> None:
    given = counting()
    adjoint = given["backbone_loss_adjoint"]
    step = FuseTrainStep()(
        given.with_function("backbone_loss_adjoint", replace(adjoint, pure=False))
    )
    impure, pure = step["train_step"], given["train_step"]
    assert not impure.pure
    assert [type(block) for block in impure.body.blocks] == [BindingBlock]
    names = [[binding.var.name for binding in f.body.bindings()] for f in (impure, pure)]
    assert names[0] == [name.replace("lv", "gv") for name in names[1]]


def test_the_step_is_the_adjoint_and_then_the_optimizer() -> None:
    mod = counting()
    x, targets = np.ones((3, 2), "float32"), np.zeros((3, 2), "float32")
    params, states, steps = (np.array([1, 2], "float32"),), (np.float32(7),), (np.int64(4),)
    with jax.enable_x64(True):
        result, gradients = to_jax(mod, "backbone_loss_adjoint")(x, *params, *states, targets)
        expected = to_jax(mod, "optimizer")(params, gradients, steps)
        found = to_jax(mod, "train_step")(params, states, steps, x, targets)
    chex.assert_trees_all_equal(found, (result[0], expected[0], (result[2],), expected[1]))
    assert float(found[2][0]) == 8
    assert int(found[3][0]) == 5


def test_an_edited_adjoint_is_called_and_the_step_is_written_anew() -> None:
    """The very optimizer in another module gives the very step again."""
    mod = counting()
    again = FuseTrainStep()(mod)
    assert_structural_equal(again["train_step"], mod["train_step"])
    scaled = counting(loss_scale=8.0)
    assert len(scaled["backbone_loss_adjoint"].params) == 5
    assert_structural_equal(FuseTrainStep()(scaled)["train_step"], scaled["train_step"])


def test_a_module_without_an_adjoint_is_an_error() -> None:
    mod: Any = Counting
    match = "the module has no function `backbone_loss_adjoint`: apply SetupTrainer"
    with pytest.raises(ValueError, match=match):
        FuseTrainStep()(mod)


def test_a_module_that_does_not_state_its_counts_is_an_error() -> None:
    match = "the module's attribute `input_num` is None and no integer: apply"
    with pytest.raises(ValueError, match=match):
        FuseTrainStep()(counting().without_attr("input_num"))


def test_evaluate_gives_the_loss_and_the_outputs_without_states() -> None:
    x, targets = np.ones((3, 2), "float32"), np.zeros((3, 2), "float32")
    w = np.array([1, 2], "float32")
    loss, out, twice = to_jax(counting(), "evaluate")(x, w, np.float32(7), targets)
    assert float(loss) == 15
    np.testing.assert_array_equal(out, x * w)
    np.testing.assert_array_equal(twice, 2 * x)
