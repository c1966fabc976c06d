"""Steps hold images and kernels channels last on a CPU, unless they are to leave layouts alone."""

from typing import Any

import chex
import jax
import numpy as np
import optax
import pytest
from parsing import parse_functions
from quickly_compiled_programs import QUICK

from relaxjax import SetupTrainer, to_jax
from relaxjax.ir import Call, IRModule, TensorType, TupleType, assert_structural_equal
from relaxjax.ir.op import get_op
from relaxjax.ir.walk import post_order
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD, from_optax

IMAGE, KERNEL, MOVED, MEANS = (2, 16, 6, 6), (16, 16, 3, 3), (3, 3, 16, 16), (2, 16)

BACKBONE = parse_functions("""
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
""")


def trained(optimizer: Any = None, **options: Any) -> IRModule:
    loss_args = [TensorType(MEANS, "float32")] * 2
    return SetupTrainer(MSELoss(), optimizer or SGD(0.5), loss_args, **options)(BACKBONE)


def permutations(mod: IRModule, name: str) -> list[Any]:
    calls = (e for e in post_order(mod[name]) if isinstance(e, Call))
    return [call.attrs["permutation"] for call in calls if call.op is get_op("lax.transpose")]


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
    """Inputs and results keep their shapes, and values but for rounding; kernels are moved."""
    random = np.random.default_rng(0)
    drawn = [random.normal(size=s).astype("float32") / 4 for s in (KERNEL, KERNEL, IMAGE, MEANS)]
    one, other = both
    (params, *given), (others, *wanted) = ([p.ty for p in mod["train_step"].params] for mod in both)
    assert given == wanted
    moved, as_they_were = (TupleType((TensorType(s, "float32"),) * 2) for s in (MOVED, KERNEL))
    assert (params, others) == (moved, as_they_were)

    def stepped(mod: IRModule, kernels: Any) -> Any:
        state = tuple(jax.numpy.asarray(array.data) for array in mod.attrs["optim_state"])
        step = jax.jit(to_jax(mod, "train_step"), compiler_options=QUICK)
        return step(tuple(kernels), (), state, *drawn[2:])

    def back(result: Any) -> Any:
        loss, kernels, *states = result
        return loss, tuple(kernel.transpose(3, 2, 0, 1) for kernel in kernels), *states

    kernels = drawn[:2]
    found = back(stepped(one, [kernel.transpose(2, 3, 1, 0) for kernel in kernels]))
    chex.assert_trees_all_close(found, stepped(other, kernels), rtol=1e-4, atol=1e-5)


def test_the_module_tells_how_kernels_are_stored(both: tuple[IRModule, IRModule]) -> None:
    stored, apart = (mod.attrs.get("stored_params") for mod in both)
    assert stored is not None
    assert list(map(dict, stored)) == [
        {"name": "w0", "array": 0, "order": (2, 3, 1, 0)},
        {"name": "w1", "array": 1, "order": (2, 3, 1, 0)},
    ]
    assert apart is None


def test_what_the_backbone_calls_stays_and_it_gets_the_kernels_as_they_were(
    both: tuple[IRModule, IRModule],
) -> None:
    assert_structural_equal(both[0]["block"], both[1]["block"])
    for name in ("backbone", "evaluate"):
        assert permutations(both[0], name) == [(3, 2, 0, 1)] * 2
        assert not permutations(both[1], name)
    only_here = set(both[0]) - set(both[1])
    assert not only_here


def test_an_optimizer_that_looks_at_shapes_gets_them_as_they_were() -> None:
    mod = trained(from_optax(optax.lars(0.5)))
    assert "stored_params" not in mod.attrs
    kernel = TensorType(KERNEL, "float32")
    assert mod["train_step"].params[0].ty == TupleType((kernel, kernel))


def test_what_is_not_legalised_is_left_as_it_was_written() -> None:
    mod = trained(legalize=False)
    assert set(layouts(mod, "block", "relax.nn.conv2d")) == {"NCHW"}
    assert not layouts(mod, "backbone_loss", "relax.nn.conv2d")
