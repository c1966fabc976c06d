"""Data that the gradients of kernels read in another order: it waits where nothing is planned."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from optax import adam
from parsing import parse_flow

import relaxjax
from relaxjax.ops.platform import chosen_platform, lowering_for
from relaxjax.passes.memory.planning.turned_data import with_turned_data
from relaxjax.training import Trainer

pytestmark = pytest.mark.skipif(chosen_platform() != "cpu", reason="it is for CPUs")

IMAGES = (16, 16, 16, 16)
STEPS = "\n".join(f"g{i} = L.exp({'g' if i == 0 else f'g{i - 1}'})" for i in range(20))


def convolution(data: str, gradient: str, spec: str) -> str:
    specs = f'"lhs_spec": {spec}, "rhs_spec": [3, 0, 1, 2], "out_spec": [2, 3, 0, 1]'
    numbers = f'{{"ConvDimensionNumbers": {{{specs}}}}}'
    return (
        f"y = L.conv_general_dilated({data}, {gradient}, window_strides=[1, 1], "
        "padding=[[1, 1], [1, 1]], lhs_dilation=[1, 1], rhs_dilation=[1, 1], "
        f"dimension_numbers={numbers}, feature_group_count=1, batch_group_count=1)"
    )


CHANNELS_FOR_IMAGES, AS_THEY_ARE = "[3, 0, 1, 2]", "[0, 3, 1, 2]"

CHOSEN = """
i = L.iota(dtype="int32", shape=[2], dimension=0)
n = L.broadcast_in_dim(i, shape=[16, 16, 16, 2, 8], broadcast_dimensions=[3])
b = L.broadcast_in_dim(half, shape=[16, 16, 16, 2, 8], broadcast_dimensions=[0, 1, 2, 4])
c = L.select_n(n, b, b)
d = L.reshape(c, new_sizes=[16, 16, 16, 16])
"""
BODIES: dict[str, tuple[str, bool]] = {
    "turned": (f"d = L.exp(x)\n{STEPS}\n{convolution('d', 'g19', CHANNELS_FOR_IMAGES)}", True),
    "in a reshape": (
        (
            f"e = L.exp(x)\nd = L.reshape(e, new_sizes=[16, 16, 16, 16])\n{STEPS}\n"
            f"{convolution('d', 'g19', CHANNELS_FOR_IMAGES)}"
        ),
        True,
    ),
    "given": (f"e = L.sin(g)\n{STEPS}\n{convolution('x', 'g19', CHANNELS_FOR_IMAGES)}", True),
    "given after all": (convolution("x", "g", CHANNELS_FOR_IMAGES), False),
    "few": (f"d = L.exp(few)\n{STEPS}\n{convolution('d', 'g19', CHANNELS_FOR_IMAGES)}", False),
    "images first": (f"d = L.exp(x)\n{STEPS}\n{convolution('d', 'g19', AS_THEY_ARE)}", False),
    "needed at once": (
        f"{STEPS}\nd = L.exp(x)\n{convolution('d', 'g19', CHANNELS_FOR_IMAGES)}",
        False,
    ),
    "windows in a reshape": (
        (
            "a = L.concatenate(half, half, dimension=3)\n"
            f"d = L.reshape(a, new_sizes=[16, 16, 16, 16])\n{STEPS}\n"
            f"{convolution('d', 'g19', CHANNELS_FOR_IMAGES)}"
        ),
        False,
    ),
    "windows side by side": (
        (
            f"a = L.concatenate(half, half, dimension=3)\n{STEPS}\n"
            f"{convolution('a', 'g19', CHANNELS_FOR_IMAGES)}"
        ),
        False,
    ),
    "windows chosen by the place": (
        f"{CHOSEN}\n{STEPS}\n{convolution('d', 'g19', CHANNELS_FOR_IMAGES)}",
        False,
    ),
    "chosen by a mask": (
        (
            f"m = L.gt(x, g)\nd = L.select_n(m, x, g)\n{STEPS}\n"
            f"{convolution('d', 'g19', CHANNELS_FOR_IMAGES)}"
        ),
        True,
    ),
}


PARTS = {"half": (16, 16, 16, 8), "few": (16, 16, 16, 3)}


@pytest.mark.parametrize(("body", "waits"), BODIES.values(), ids=BODIES)
def test_what_waits(body: str, waits: bool) -> None:
    mod = parse_flow(f"{body}\nreturn y", x=IMAGES, g=IMAGES, **PARTS)
    late = with_turned_data(mod, "main")
    assert ("R.grad.delay" in late.script()) == waits
    assert waits or late is mod
    with lowering_for("cuda"):
        assert with_turned_data(mod, "main") is mod


def loss(params: Any, images: Any) -> Any:
    for kernel in params:
        numbers = ("NHWC", "HWIO", "NHWC")
        images = jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=numbers
        )
        images = jax.nn.relu(images)
    return (images**2).mean()


RNG = np.random.default_rng(0)
KERNELS = [jnp.asarray(RNG.normal(0, 0.1, (3, 3, 16, 16)), "float32") for _ in range(3)]
BATCH = jnp.asarray(RNG.normal(0, 1, (8, 16, 16, 16)), "float32")


def compiled(policy: str | None) -> Any:
    step = relaxjax.value_and_grad(loss, memory_policy=policy)
    return jax.jit(step).lower(KERNELS, BATCH).compile()


def test_gradients_are_the_same_in_less_memory() -> None:
    default, everything = compiled(None), compiled("none")
    found, wanted = default(KERNELS, BATCH), jax.value_and_grad(loss)(KERNELS, BATCH)
    chex.assert_trees_all_close(found, wanted, rtol=1e-4, atol=1e-6)
    taken, kept = (one.memory_analysis().temp_size_in_bytes for one in (default, everything))
    assert taken < 0.9 * kept
    assert compiled("free").memory_analysis().temp_size_in_bytes <= taken
    report = relaxjax.value_and_grad(loss).memory(KERNELS, BATCH)
    assert report.bytes_by_xla == pytest.approx(taken, rel=0.05)


def test_a_step_tells_of_it() -> None:
    trainer = Trainer.from_jax(lambda params, batch: loss(params, batch), KERNELS, adam(0.1), BATCH)
    assert "_late" in trainer.mod["backbone_loss_adjoint"].script()
    assert trainer.memory().bytes_by_xla == trainer.temporary_bytes(BATCH)


def gated(params: Any, sound: Any) -> Any:
    def convolved(data: Any, kernel: Any) -> Any:
        numbers = ("NWC", "WIO", "NWC")
        return jax.lax.conv_general_dilated(
            data, kernel, (1,), "SAME", rhs_dilation=(2,), dimension_numbers=numbers
        )

    for kernel, gate, out in params:
        inner = jnp.tanh(convolved(sound, kernel)) * jax.nn.sigmoid(convolved(sound, gate))
        sound = sound + convolved(inner, out)
    return (sound**2).mean()


def test_a_plan_may_save_enough_once_data_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(size: int) -> Any:
        return jnp.asarray(RNG.normal(0, 0.1, (size, 16, 16)), "float32")

    args = [(kernel(2), kernel(2), kernel(1)) for _ in range(3)], BATCH.reshape(4, 512, 16)
    monkeypatch.setattr("relaxjax.passes.memory.planning.estimate.SMALL", 1024)
    monkeypatch.setattr("relaxjax.passes.memory.planning.decisions.SMALL", 1024)
    taken = []
    for worth in (0.85, 0.1):
        monkeypatch.setattr("relaxjax.passes.memory.planning.decisions.WORTH", worth)
        monkeypatch.setattr("relaxjax.autodiff.backward._KEPT", {})
        step: Any = jax.jit(relaxjax.value_and_grad(gated))
        taken.append(step.lower(*args).compile().memory_analysis().temp_size_in_bytes)
        assert "R.grad.delay" in relaxjax.value_and_grad(gated).module(*args).script()
        wanted = jax.value_and_grad(gated)(*args)
        chex.assert_trees_all_close(step(*args), wanted, rtol=1e-4, atol=1e-7)
    assert taken[0] < 0.95 * taken[1]


def test_on_other_platforms_the_program_stays() -> None:
    module = relaxjax.value_and_grad(loss).module(KERNELS, BATCH)
    assert "R.grad.delay" in module.script()
    with lowering_for("cuda"):
        assert "R.grad.delay" not in relaxjax.value_and_grad(loss).module(KERNELS, BATCH).script()
