"""Levels of a tree are stored once for the next ones."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from parsing import parse_flow

import relaxjax
from relaxjax.ir import IRModule
from relaxjax.ir.expr import Call
from relaxjax.ir.op import get_op
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import StoreLevels

HERE = jax.default_backend() == "cpu"
pytestmark = pytest.mark.skipif(not HERE, reason="other platforms store nothing more")

LENGTH, WIDTH = 64, 128


def every_other(name: str, start: int, length: int, stride: int = 2) -> str:
    limits = f"start_indices=[{start}, 0], limit_indices=[{length}, {WIDTH}]"
    return f"L.slice({name}, {limits}, strides=[{stride}, 1])"


def level(name: str, of: str, length: int) -> str:
    """Neighbours are multiplied."""
    pair = f"{name}0 = {every_other(of, 0, length)}; {name}1 = {every_other(of, 1, length)}"
    return f"{pair}; {name} = L.mul({name}0, {name}1)"


def parsed(body: str) -> IRModule:
    return parse_flow(
        body.replace("; ", "\n"), x=(LENGTH, WIDTH), i=f'R.Tensor({LENGTH, WIDTH}, "int32")'
    )


def stored(mod: IRModule) -> list[str]:
    bindings = StoreLevels()(mod)["main"].body.bindings()
    calls = [(b.var.name, b.value) for b in bindings if isinstance(b.value, Call)]
    return [name for name, value in calls if value.op is get_op("relax.grad.once")]


TREE = "; ".join([level("a", "x", 64), level("b", "a", 32), level("c", "b", 16)])
LEVELS: dict[str, tuple[str, list[str]]] = {
    "a tree": (TREE, ["a", "b"]),
    "through other numbers": (
        f"{level('a', 'x', 64)}; e = L.exp(a); {level('b', 'e', 32)}",
        ["e"],
    ),
    "elements as they are": (level("a", "x", 64), []),
    "all elements": (
        f"a = {every_other('x', 0, 64, 1)}; b = L.exp(a); c = {every_other('b', 0, 64, 1)}",
        [],
    ),
    "one level, read whole": (f"{level('a', 'x', 64)}; b = L.exp(a)", []),
    "one level, read in part": (
        f"{level('a', 'x', 64)}; b = {every_other('a', 0, 32)}; c = {every_other('a', 1, 32, 4)}",
        [],
    ),
    "in part, and whole": (
        f"{level('a', 'x', 64)}; b = {every_other('a', 0, 32)}; c = L.exp(a); return (b, c)",
        ["a"],
    ),
    "integers": (TREE.replace("x", "i"), []),
}


@pytest.mark.parametrize("name", LEVELS)
def test_what_is_read_by_the_next_level_is_stored(name: str) -> None:
    body, wanted = LEVELS[name]
    mod = parsed(body)
    assert stored(mod) == wanted
    assert wanted or StoreLevels()(mod) is mod


def test_small_levels_are_left() -> None:
    body = "; ".join([level("a", "x", 8), level("b", "a", 4)])
    mod = parse_flow(body.replace("; ", "\n"), x=(8, WIDTH))
    assert StoreLevels()(mod) is mod


def test_other_platforms_store_nothing_more() -> None:
    mod = parsed(TREE)
    with lowering_for("cuda"):
        assert StoreLevels()(mod) is mod


def test_values_stay() -> None:
    mod, x = parsed(TREE), np.random.default_rng(0).normal(size=(LENGTH, WIDTH)).astype("float32")
    i = np.zeros((LENGTH, WIDTH), "int32")
    before, after = (to_jax(one, "main")(x, i) for one in (mod, StoreLevels()(mod)))
    chex.assert_trees_all_equal(before, after)


def test_an_associative_scan_has_its_gradient_by_stored_levels() -> None:
    def combined(one: Any, other: Any) -> Any:
        return one[0] * other[0], other[0] * one[1] + other[1]

    def loss(decay: Any, x: Any) -> Any:
        scanned = lax.associative_scan(combined, (jnp.exp(-decay * decay), x))
        return (scanned[1] ** 2).mean()

    decay, x = (np.random.default_rng(n).normal(size=(LENGTH, WIDTH)) for n in (1, 2))
    args = [array.astype("float32") for array in (decay, x)]
    found = relaxjax.value_and_grad(loss, argnums=(0, 1), memory_policy="none")
    assert str(found.module(*args)).count("R.grad.once") == 6  # three levels of both
    wanted = jax.value_and_grad(loss, argnums=(0, 1))(*args)
    chex.assert_trees_all_close(found(*args), wanted, rtol=1e-4, atol=1e-6)
