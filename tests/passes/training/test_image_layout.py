"""Training steps hold images channels last on a CPU, unless they are to leave layouts alone."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from parsing import parse_module

from relaxjax.ir.expr import Call
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import get_op
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import post_order
from relaxjax.losses import MSELoss
from relaxjax.lowering import to_jax
from relaxjax.optim import SGD
from relaxjax.passes import SetupTrainer

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
IMAGE, KERNEL, MEANS = (2, 16, 6, 6), (16, 16, 3, 3), (2, 16)

BACKBONE = parse_module(
    """
@I.ir_module
class Module:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((2, 16, 6, 6), "float32"),
        w0: R.Tensor((16, 16, 3, 3), "float32"),
        w1: R.Tensor((16, 16, 3, 3), "float32"),
    ):
        with R.dataflow():
            y = Module.block(x, w0)
            z = Module.block(y, w1)
            out = R.mean(z, axis=[2, 3])
            R.output(out)
        return out

    @R.function(private=True)
    def block(
        x: R.Tensor((2, 16, 6, 6), "float32"), w: R.Tensor((16, 16, 3, 3), "float32")
    ) -> R.Tensor((2, 16, 6, 6), "float32"):
        with R.dataflow():
            y = R.nn.relu(R.nn.conv2d(x, w, padding=1))
            R.output(y)
        return y
"""
)


def trained(**options: Any) -> IRModule:
    loss_args = [TensorType(MEANS, "float32")] * 2
    return SetupTrainer(MSELoss(), SGD(0.5), loss_args, **options)(BACKBONE)


def layouts(mod: IRModule, name: str, op: str) -> list[Any]:
    calls = (e for e in post_order(mod[name]) if isinstance(e, Call) and e.op is get_op(op))
    key = "dimension_numbers" if op.startswith("lax.") else "data_layout"
    return [str(call.attrs[key]) for call in calls]


@pytest.fixture(scope="module")
def both() -> tuple[IRModule, IRModule]:
    return trained(), trained(channels_last=False)


def test_the_step_is_computed_channels_last(both: tuple[IRModule, IRModule]) -> None:
    last, first = (
        set(layouts(mod, "backbone_loss_adjoint", "lax.conv_general_dilated")) for mod in both
    )
    assert last
    assert not last & first


def test_the_step_takes_and_gives_the_same(both: tuple[IRModule, IRModule]) -> None:
    """Parameters, inputs and results keep their shapes, and values but for rounding."""
    random = np.random.default_rng(0)
    drawn = [random.normal(size=s).astype("float32") / 4 for s in (KERNEL, KERNEL, IMAGE, MEANS)]
    one, other = both
    assert [p.ty for p in one["train_step"].params] == [p.ty for p in other["train_step"].params]

    def stepped(mod: IRModule) -> Any:
        state = tuple(jax.numpy.asarray(array.data) for array in mod.attrs["optim_state"])
        step = jax.jit(to_jax(mod, "train_step"), compiler_options=QUICK)
        return step(tuple(drawn[:2]), (), state, *drawn[2:])

    chex.assert_trees_all_close(stepped(one), stepped(other), rtol=1e-4, atol=1e-5)


def test_the_backbone_stays_and_so_does_what_it_calls(both: tuple[IRModule, IRModule]) -> None:
    for name in ("backbone", "block", "evaluate"):
        assert_structural_equal(both[0][name], both[1][name])
    only_here = set(both[0]) - set(both[1])
    assert not only_here


def test_what_is_not_legalised_is_left_as_it_was_written() -> None:
    mod = trained(legalize=False)
    assert set(layouts(mod, "block", "relax.nn.conv2d")) == {"NCHW"}
    assert not layouts(mod, "backbone_loss", "relax.nn.conv2d")
