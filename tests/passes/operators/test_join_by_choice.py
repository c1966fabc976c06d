"""Tensors side by side are chosen from by the place, where one of them is computed anyway."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.ir import Call, IRModule
from relaxjax.ir.op import operator_name
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import JoinByChoice

HERE = jax.default_backend() == "cpu"
pytestmark = pytest.mark.skipif(not HERE, reason="other platforms keep what is joined")

Function = Callable[..., Any]


def drawn(*shape: int, dtype: str = "float32", seed: int = 0) -> jax.Array:
    return jnp.asarray(10 * np.random.default_rng(seed).normal(size=shape), dtype)


def names(mod: IRModule) -> set[str | None]:
    values = [binding.value for binding in mod["main"].body.bindings()]
    return {operator_name(value) for value in values if isinstance(value, Call)}


def joined(axis: int = -1) -> Function:
    return lambda *parts: jnp.concatenate([jnp.sin(parts[0]), *parts[1:]], axis)


def half_turned(x: Any) -> Any:
    """As rotary positions turn them."""
    first, second = jnp.split(x, 2, -1)
    return jnp.concatenate([-second, first], -1)


CHOSEN: dict[str, tuple[Function, list[jax.Array]]] = {
    "two": (joined(), [drawn(64, 64), drawn(64, 64, seed=1)]),
    "three": (joined(), [drawn(2, 64, 64, seed=n) for n in range(3)]),
    "short rows": (joined(), [drawn(256, 16), drawn(256, 16, seed=1)]),
    "along one axis": (joined(), [drawn(4096), drawn(4096, seed=1)]),
    "the same one twice": (lambda x: jnp.concatenate([x[:, 1:], x[:, :-1]], -1), [drawn(64, 129)]),
    "halves turned": (half_turned, [drawn(4, 32, 64)]),
    "integers": (
        lambda a, b: jnp.concatenate([a + 1, b], -1),
        [drawn(64, 64, dtype="int32"), drawn(64, 64, dtype="int32", seed=1)],
    ),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_each_number_is_chosen_by_its_place(name: str) -> None:
    function, args = CHOSEN[name]
    mod = relaxjax.from_jax(function, *args)
    found = JoinByChoice()(mod)
    assert "lax.concatenate" in names(mod)
    assert {"lax.select_n", "lax.reshape"} <= names(found)
    assert "lax.concatenate" not in names(found)
    chex.assert_trees_all_equal(*(jax.jit(to_jax(one, "main"))(*args) for one in (mod, found)))
    assert JoinByChoice()(found) is found
    with lowering_for("cuda"):
        assert JoinByChoice()(mod) is mod


KEPT: dict[str, tuple[Function, list[jax.Array]]] = {
    "stored parts": (lambda a, b: jnp.concatenate([a, b], -1), [drawn(64, 64), drawn(64, 64)]),
    "a product": (lambda a, b: jnp.concatenate([a @ b, a], -1), [drawn(64, 64), drawn(64, 64)]),
    "another axis": (joined(0), [drawn(64, 64), drawn(64, 64)]),
    "of other lengths": (joined(), [drawn(64, 64), drawn(64, 65)]),
    "four": (joined(), [drawn(64, 64)] * 4),
    "shorter rows": (joined(), [drawn(512, 15), drawn(512, 15)]),
    "few numbers": (joined(), [drawn(63, 64), drawn(63, 64)]),
    "16 bits": (joined(), [drawn(64, 64, dtype="bfloat16")] * 2),
    "bools": (lambda a, b: jnp.concatenate([a > 0, b > 0], -1), [drawn(64, 64), drawn(64, 64)]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_as_it_is(name: str) -> None:
    function, args = KEPT[name]
    mod = relaxjax.from_jax(function, *args)
    assert "lax.concatenate" in names(mod)
    assert JoinByChoice()(mod) is mod


def test_tensors_of_unknown_lengths_stay() -> None:
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 64"), "float32")
    mod = relaxjax.from_jax(lambda a: jnp.concatenate([jnp.sin(a), a], -1), x)
    assert JoinByChoice()(mod) is mod


def test_the_parts_of_a_gradient_take_no_memory() -> None:
    """XLA would store what is joined, and a part of it, before it sums them up."""
    x = drawn(64, 128)

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.tanh(jnp.concatenate([jnp.sin(x), jnp.cos(x)], -1)) ** 2)

    ours: Any = jax.jit(relaxjax.value_and_grad(loss, memory_policy="none")).lower(x).compile()
    assert ours.memory_analysis().temp_size_in_bytes <= 2 * x.nbytes + 2**12
    chex.assert_trees_all_close(ours(x), jax.value_and_grad(loss)(x), rtol=1e-5, atol=1e-6)
