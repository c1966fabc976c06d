"""Tensors side by side are chosen from by the place, where one of them is computed anyway."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_flow

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


def multiplied(x: Any) -> Any:
    weight = np.arange(x.shape[-1] * 4).reshape(-1, 4) % 5
    return x @ jnp.asarray(weight, x.dtype)


def joined(first: Function = lambda x: jnp.maximum(x, 0), axis: int = -1) -> Function:
    return lambda x, *others: multiplied(jnp.concatenate([first(x), *others], axis))


def half_turned(x: Any) -> Any:
    """As rotary positions turn them."""
    first, second = jnp.split(x, 2, -1)
    return multiplied(jnp.concatenate([-second, first], -1))


def read_twice(x: Any, y: Any) -> Any:
    whole = jnp.concatenate([-x, y], -1)
    return whole.T @ whole.reshape(-1, 128)


X, Y = drawn(64, 64), drawn(64, 64, seed=1)
CHOSEN: dict[str, tuple[Function, list[jax.Array]]] = {
    "two": (joined(), [X, Y]),
    "three": (joined(), [drawn(2, 64, 64, seed=n) for n in range(3)]),
    "short rows": (joined(), [drawn(256, 16), drawn(256, 16, seed=1)]),
    "parts of one": (
        lambda x: multiplied(jnp.concatenate([x[:, 1:], x[:, :-1]], -1)),
        [drawn(64, 65)],
    ),
    "halves turned": (half_turned, [drawn(4, 32, 64)]),
    "a computed one beside": (lambda x, y: joined()(x, jnp.sin(y)), [X, Y]),
    "several products": (read_twice, [X, Y]),
    "integers": (joined(jnp.negative), [x.astype("int32") for x in (X, Y)]),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_each_number_is_chosen_by_its_place(name: str) -> None:
    function, args = CHOSEN[name]
    mod = relaxjax.from_jax(function, *args)
    found = JoinByChoice()(mod)
    assert "lax.concatenate" in names(mod)
    assert {"lax.select_n", "lax.reshape"} <= names(found)
    assert "lax.concatenate" not in names(found)
    first, second = (jax.jit(to_jax(one, "main"))(*args) for one in (mod, found))
    chex.assert_trees_all_close(first, second, rtol=1e-5, atol=1e-4)
    assert JoinByChoice()(found) is found
    with lowering_for("cuda"):
        assert JoinByChoice()(mod) is mod


def coupled(x: Any, y: Any) -> Any:
    """Two layers of a flow, each of which changes one half."""
    for _ in range(2):
        whole = jnp.concatenate([-y, x * jnp.exp(y)], -1)
        x, y = jnp.split(whole, 2, -1)
    return multiplied(jnp.concatenate([-x, y], -1))


KEPT: dict[str, tuple[Function, list[jax.Array]]] = {
    "stored parts": (joined(lambda x: x), [X, Y]),
    "products": (joined(lambda x: x @ x), [X, Y]),
    "functions": (joined(jnp.sin), [X, Y]),
    "of what is joined": (coupled, [X, Y]),
    "another axis": (joined(axis=0), [X, Y]),
    "of other lengths": (joined(), [X, drawn(64, 65)]),
    "four": (joined(), [X] * 4),
    "shorter rows": (joined(), [drawn(512, 15), drawn(512, 15)]),
    "few numbers": (joined(), [drawn(63, 64), drawn(63, 64)]),
    "16 bits": (joined(), [X.astype("bfloat16"), Y.astype("bfloat16")]),
    "a result": (lambda x, y: jnp.concatenate([-x, y], -1), [X, Y]),
    "read by a sum, too": (
        lambda x, y: (lambda z: multiplied(z) + z.sum())(jnp.concatenate([-x, y], -1)),
        [X, Y],
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_as_it_is(name: str) -> None:
    function, args = KEPT[name]
    mod = relaxjax.from_jax(function, *args)
    assert "lax.concatenate" in names(mod)
    assert JoinByChoice()(mod) is mod


def test_what_a_cast_of_its_type_reads_stays() -> None:
    body = """
    a = L.neg(x)
    whole = L.concatenate(a, y, dimension=1)
    same = R.match_cast(whole, R.Tensor((64, 128), "float32"))
    z = L.dot_general(same, whole, dimension_numbers=[[[1], [1]], [[], []]])
    return z
    """
    mod = parse_flow(body, x=(64, 64), y=(64, 64))
    assert JoinByChoice()(mod) is mod


def test_tensors_of_unknown_lengths_stay() -> None:
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 64"), "float32")
    mod = relaxjax.from_jax(joined(), x, x)
    assert JoinByChoice()(mod) is mod


def test_a_part_takes_no_memory_beside_what_is_joined() -> None:
    """XLA would store a part that is computed, and then what is joined."""
    x, y = drawn(64, 256), drawn(64, 256, seed=1)

    def loss(x: Any, y: Any) -> Any:
        return jnp.sum(joined()(x, y))

    ours: Any = jax.jit(relaxjax.value_and_grad(loss, memory_policy="none")).lower(x, y).compile()
    assert ours.memory_analysis().temp_size_in_bytes < 3 * x.nbytes
    chex.assert_trees_all_close(ours(x, y), jax.value_and_grad(loss)(x, y), rtol=1e-5, atol=1e-5)
