"""Elementwise operators between products of matrices, in the matrices' shape."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_flow

import relaxjax
from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import Rematerialize
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.planning.recompute import rematerialized
from relaxjax.passes.memory.program.matrix_rows import with_matrix_rows
from relaxjax.passes.memory.program.program import Program

PRODUCT = 'dimension_numbers=[[[1], [0]], [[], []]], preferred_element_type="float32"'
TYPES = {"x": (6, 4), "w": (4, 8), "v": (8, 4), "bias": (1, 1, 8), "rows": (2, 3, 1)}


def parsed(body: str) -> IRModule:
    return parse_flow(body.replace("PRODUCT", PRODUCT), **TYPES)


def moved(body: str) -> IRModule:
    """The module with rows of matrices, which must compute what it computed before."""
    before = parsed(body)
    after = with_matrix_rows(before, "main")
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") for shape in TYPES.values()]
    results = (to_jax(mod, "main")(*args) for mod in (before, after))
    chex.assert_trees_all_close(*results, rtol=1e-6)
    return after


def test_an_activation_between_two_products_stays_a_matrix() -> None:
    after = moved("""
        a = L.dot_general(x, w, PRODUCT)
        b = L.reshape(a, new_sizes=[2, 3, 8])
        c = L.add(b, bias)
        d = L.mul(R.const(0.5, "float32"), c)
        e = L.tanh(L.mul(d, rows))
        f = L.reshape(e, new_sizes=[6, 8])
        g = L.dot_general(f, v, PRODUCT)
    """)
    expected = parsed("""
        a = L.dot_general(x, w, PRODUCT)
        c = L.add(a, L.reshape(bias, new_sizes=[1, 8]))
        d = L.mul(R.const(0.5, "float32"), c)
        e = L.tanh(L.mul(d, L.reshape(rows, new_sizes=[6, 1])))
        g = L.dot_general(e, v, PRODUCT)
    """)
    assert_structural_equal(flat(after), flat(expected))


def flat(mod: IRModule) -> IRModule:
    """The module with each value in a binding of its own, without names for others."""
    return relaxjax.passes.CanonicalizeBindings()(relaxjax.passes.Normalize()(mod))


def test_who_needs_the_rows_apart_is_given_them_so() -> None:
    """One more reader takes the value in its own shape, which costs nothing."""
    after = moved("""
        a = L.dot_general(x, w, PRODUCT)
        b = L.reshape(a, new_sizes=[2, 3, 8])
        c = L.tanh(b)
        d = L.dot_general(L.reshape(c, new_sizes=[6, 8]), v, PRODUCT)
        e = L.reduce_sum(c, axes=[1])
        return (d, e)
    """)
    shapes = [b.var.ty.dims for b in after["main"].body.bindings() if "tanh" in str(b.value)]
    assert shapes == [(6, 8)]


ALONE = {
    "not reshaped back": """
        a = L.dot_general(x, w, PRODUCT)
        b = L.tanh(L.reshape(a, new_sizes=[2, 3, 8]))
    """,
    "reshaped otherwise": """
        a = L.dot_general(x, w, PRODUCT)
        b = L.tanh(L.reshape(a, new_sizes=[2, 3, 8]))
        c = L.reshape(b, new_sizes=[2, 24])
    """,
    "beside an array of no matrix": """
        a = L.dot_general(x, w, PRODUCT)
        b = L.reshape(a, new_sizes=[2, 3, 8])
        c = L.mul(b, L.broadcast_in_dim(rows, shape=[2, 3, 8], broadcast_dimensions=[0, 1, 2]))
        d = L.dot_general(L.reshape(c, new_sizes=[6, 8]), v, PRODUCT)
    """,
    "transposed on the way": """
        a = L.dot_general(x, w, PRODUCT)
        b = L.reshape(a, new_sizes=[8, 6], dimensions=[1, 0])
        c = L.tanh(b)
    """,
}


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE)
def test_what_stays(body: str) -> None:
    mod = parsed(body)
    assert with_matrix_rows(mod, "main") is mod


def layers(weights: Any, x: Any) -> Any:
    for up, down in weights:
        x = x + jax.nn.gelu(x @ up) @ down
    return jnp.sum(x * x)


def adjoint() -> IRModule:
    weights = [(jnp.ones((32, 128)), jnp.ones((128, 32)))] * 3
    return relaxjax.value_and_grad(layers, memory_policy="none").module(
        weights, jnp.ones((4, 32, 32))
    )


def test_a_plan_takes_less_memory_by_the_compiler_s_count() -> None:
    name, before = "loss_adjoint", adjoint()
    after = with_matrix_rows(before, name)

    def least(mod: IRModule) -> int:
        planner = Planner(Program.of(mod[name], mod, name))
        return temporary_bytes(rematerialized(mod, name, planner.balanced), name)

    assert least(after) < 0.95 * least(before)
    assert temporary_bytes(Rematerialize(name, policy="balanced")(before), name) == least(after)


def test_elsewhere_than_on_a_cpu_plans_are_made_of_the_program_as_it_stands() -> None:
    with lowering_for("cuda"):
        mod = Rematerialize("loss_adjoint", policy="balanced")(adjoint())
    assert not [var for var in mod["loss_adjoint"].body.bindings() if "_rows" in var.var.name]
