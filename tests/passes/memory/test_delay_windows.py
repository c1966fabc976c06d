"""Windows that the gradient of a kernel reads are put side by side when it is due."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_flow

import relaxjax
from relaxjax.ir.expr import Call, Var
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import chosen_platform, lowering_for
from relaxjax.passes import DelayWindows

pytestmark = pytest.mark.skipif(chosen_platform() != "cpu", reason="it is for CPUs")

IMAGES, HALF, FEW = (16, 16, 16, 16), (16, 16, 16, 8), (16, 16, 16, 1)
VIEWS = """
e = L.exp(half)
p = L.pad(e, R.const(0.0, "float32"), padding_config=[[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]])
s = L.slice(p, start_indices=[0, 1, 0, 0], limit_indices=[16, 17, 16, 8], strides=[1, 1, 1, 1])
a = L.concatenate(e, s, dimension=3)
"""
BESIDE = "a = L.concatenate(e, e, dimension=3)"


def turned(data: str, spec: str = "[3, 0, 1, 2]") -> str:
    """The gradient of a kernel, whose data has channels for images."""
    specs = f'"lhs_spec": {spec}, "rhs_spec": [3, 0, 1, 2], "out_spec": [2, 3, 0, 1]'
    return (
        f"y = L.conv_general_dilated({data}, d, window_strides=[1, 1], "
        "padding=[[1, 1], [1, 1]], lhs_dilation=[1, 1], rhs_dilation=[1, 1], "
        f'dimension_numbers={{"ConvDimensionNumbers": {{{specs}}}}}, '
        "feature_group_count=1, batch_group_count=1)\nreturn y"
    )


def module(body: str) -> Any:
    return parse_flow(body, g=IMAGES, x=IMAGES, half=HALF, other=HALF, few=FEW)


# What stays as it is.
KEPT = {
    "one view": f"d = L.sin(g)\na = L.reshape(x, new_sizes=[16, 16, 16, 16])\n{turned('a')}",
    "images first": f"{VIEWS}\nd = L.sin(g)\n{turned('a', '[0, 3, 1, 2]')}",
    "two tensors": (
        f"e = L.exp(half)\na = L.concatenate(e, other, dimension=3)\nd = L.sin(g)\n{turned('a')}"
    ),
    "due at once": f"d = L.sin(g)\ne = L.exp(half)\n{BESIDE}\n{turned('a')}",
    "few": (f"e = L.exp(few)\na = L.concatenate(e, e, dimension=3)\nd = L.sin(g)\n{turned('a')}"),
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_what_stays_as_it_is(body: str) -> None:
    mod = module(body)
    assert DelayWindows()(mod) is mod


def test_views_are_made_anew_of_what_waits() -> None:
    mod = module(f"{VIEWS}\nd = L.sin(g)\n{turned('a')}")
    late = DelayWindows()(mod)
    bindings = list(late["main"].body.bindings())[-6:]
    read = {
        b.var.name: [arg.name for arg in b.value.args if isinstance(arg, Var)]
        for b in bindings
        if isinstance(b.value, Call)
    }
    assert read == {
        "d": ["g"],
        "e_late": ["e", "d"],
        "p_late": ["e_late"],
        "s_late": ["p_late"],
        "a_late": ["e_late", "s_late"],
        "y": ["a_late", "d"],
    }
    rng = np.random.default_rng(0)
    shapes = [IMAGES, IMAGES, HALF, HALF, FEW]
    args = [jnp.asarray(rng.normal(0, 1, shape), "float32") for shape in shapes]
    chex.assert_trees_all_equal(to_jax(late, "main")(*args), to_jax(mod, "main")(*args))
    with lowering_for("cuda"):
        assert DelayWindows()(mod) is mod


def test_what_is_given_waits_too() -> None:
    mod = module(f"a = L.concatenate(half, half, dimension=3)\nd = L.sin(g)\n{turned('a')}")
    assert "R.grad.delay(half, d)" in DelayWindows()(mod).script()


def volumes(kernels: Any, scans: Any) -> Any:
    for stride, kernel in zip((2, 2, 1), kernels, strict=True):
        numbers = ("NDHWC", "DHWIO", "NDHWC")
        scans = jax.lax.conv_general_dilated(
            scans, kernel, (stride,) * 3, "SAME", dimension_numbers=numbers
        )
        scans = jax.nn.relu(scans)
    return (scans**2).mean()


def test_volumes_take_no_more_memory_than_in_jax() -> None:
    rng = np.random.default_rng(1)
    ends = ((1, 16), (16, 32), (32, 32))
    kernels = [jnp.asarray(rng.normal(0, 0.1, (3, 3, 3, *one)), "float32") for one in ends]
    scans = jnp.asarray(rng.normal(0, 1, (2, 32, 32, 32, 1)), "float32")
    theirs: Any = jax.jit(jax.value_and_grad(volumes)).lower(kernels, scans).compile()
    wanted, most = theirs(kernels, scans), theirs.memory_analysis().temp_size_in_bytes
    for policy, share in (("none", 1.1), (None, 1.1), ("balanced", 1.0)):
        ours = relaxjax.value_and_grad(volumes, memory_policy=policy)
        program: Any = jax.jit(ours).lower(kernels, scans).compile()
        assert program.memory_analysis().temp_size_in_bytes < share * most
        chex.assert_trees_all_close(program(kernels, scans), wanted, rtol=1e-4, atol=1e-6)
