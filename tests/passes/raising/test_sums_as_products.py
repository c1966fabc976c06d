"""Sums of elementwise products as products of matrices."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.ir import Call, IRModule, Op
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import SumsAsProducts

Function = Callable[..., jax.Array]
HERE = jax.default_backend() == "cpu"
pytestmark = pytest.mark.skipif(not HERE, reason="other platforms keep the sums")


def drawn(*shape: int, dtype: str = "float32") -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), dtype)


def products(module: IRModule, name: str = "main") -> int:
    calls = [b.value for b in module[name].body.bindings() if isinstance(b.value, Call)]
    return sum(isinstance(c.op, Op) and c.op.name == "lax.dot_general" for c in calls)


def of_all(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a[:, None] * b[None]).sum(-1)


def turned(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a[None] * b[:, None]).sum(-1)


def of_batch(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a[:, :, None] * b[:, None]).sum(-1)


def of_rows(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a * b[:, None]).sum(2)


def of_columns(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a * b[:, :, None]).sum(1)


def over_two_axes(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a[:, None] * b[None]).sum((2, 3))


def of_three_axes(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a * b).sum(2)


CASES = [
    (of_all, (40, 16), (50, 16)),
    (turned, (40, 16), (50, 16)),
    (of_batch, (6, 20, 16), (6, 30, 16)),
    (of_rows, (16, 64, 16), (16, 16)),
    (of_columns, (16, 64, 16), (16, 64)),
    (over_two_axes, (40, 4, 5), (50, 4, 5)),
    (of_three_axes, (40, 1, 16), (1, 50, 16)),
]


@pytest.mark.parametrize(
    ("function", "a", "b"), CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_a_sum_is_one_product(function: Function, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    args = drawn(*a), drawn(*b)
    changed = SumsAsProducts()(relaxjax.from_jax(function, *args))
    assert products(changed) == 1
    assert "reduce_sum" not in changed.script()
    assert SumsAsProducts()(changed) is changed
    chex.assert_trees_all_close(
        to_jax(changed, "main")(*args), function(*args), rtol=1e-4, atol=1e-4
    )

    def total(*args: jax.Array) -> jax.Array:
        return (function(*args) ** 2).sum()

    wanted = jax.grad(total, (0, 1))(*args)
    chex.assert_trees_all_close(
        relaxjax.grad(total, argnums=(0, 1))(*args), wanted, rtol=1e-3, atol=1e-2
    )


def shared(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    both = a[:, None] * b[None]
    return both.sum(-1), both


def of_one_factor(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a[:, None] * b[None]).sum((0, 2))


def batch_behind(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a * b[:, :, None]).sum(0)


def own_axis_between(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a[:, None] * b[None, :, None]).sum(-1)


def with_an_axis_of_neither(a: jax.Array, b: jax.Array) -> jax.Array:
    return (jnp.broadcast_to(a[:, None, :, None], (40, 50, 16, 2)) * b[None, :, :, None]).sum(2)


def norm(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a * b).sum(-1)


@pytest.mark.parametrize(
    ("function", "a", "b"),
    [
        (shared, drawn(40, 16), drawn(50, 16)),
        (of_one_factor, drawn(40, 16), drawn(50, 16)),
        (batch_behind, drawn(64, 16, 16), drawn(64, 16)),
        (own_axis_between, drawn(20, 8, 16), drawn(30, 16)),
        (with_an_axis_of_neither, drawn(40, 16), drawn(50, 16)),
        (norm, drawn(40, 600), drawn(40, 600)),
        (of_all, drawn(10, 16), drawn(10, 16)),  # few
        (of_batch, drawn(100, 8, 4), drawn(100, 8, 4)),  # few for each of the batch
        (of_all, drawn(40, 16, dtype="float16"), drawn(50, 16, dtype="float16")),
        (of_all, drawn(40, 16).astype(int), drawn(50, 16).astype(int)),
    ],
)
def test_sums_that_stay(function: Function, a: jax.Array, b: jax.Array) -> None:
    module = relaxjax.from_jax(function, a, b)
    assert SumsAsProducts()(module) is module


def test_sums_stay_for_other_platforms() -> None:
    module = relaxjax.from_jax(of_all, drawn(40, 16), drawn(50, 16))
    with lowering_for("cuda"):
        assert SumsAsProducts()(module) is module


def over_batch(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum("bi,bj->bij", a, b).sum(0)


def over_one_of_two_batches(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum("abik,abkj->abij", a, b).sum(0)


def over_both_batches(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum("abik,abkj->baij", a, b).sum((0, 1))


@pytest.mark.parametrize(
    ("function", "a", "b", "numbers"),
    [
        (over_batch, (8, 4), (8, 3), "[[[0], [0]], [[], []]]"),
        (over_one_of_two_batches, (8, 3, 5, 2), (8, 3, 2, 6), "[[[0, 3], [0, 2]], [[1], [1]]]"),
        (over_both_batches, (8, 3, 5, 2), (8, 3, 2, 6), "[[[1, 0, 3], [1, 0, 2]], [[], []]]"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_sum_of_the_products_of_a_batch_is_one_product(
    function: Function, a: tuple[int, ...], b: tuple[int, ...], numbers: str, platform: str
) -> None:
    args = drawn(*a), drawn(*b)
    with lowering_for(platform):
        changed = SumsAsProducts()(relaxjax.from_jax(function, *args))
    assert products(changed) == 1
    assert "reduce_sum" not in changed.script()
    assert f"dimension_numbers={numbers}" in changed.script()
    chex.assert_trees_all_close(
        to_jax(changed, "main")(*args), function(*args), rtol=1e-4, atol=1e-4
    )


def of_each_as_well(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    each = jnp.einsum("bi,bj->bij", a, b)
    return each.sum(0), each


def over_rows(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum("bi,bj->bij", a, b).sum(1)


@pytest.mark.parametrize(
    ("function", "a", "b"),
    [
        (of_each_as_well, drawn(8, 4), drawn(8, 3)),
        (over_rows, drawn(8, 4), drawn(8, 3)),
        (over_one_of_two_batches, drawn(8, 3, 2, 6), drawn(8, 3, 6, 2)),  # of larger factors
        (over_batch, drawn(8, 4, dtype="bfloat16"), drawn(8, 3, dtype="bfloat16")),
    ],
)
def test_sums_of_products_that_stay(function: Function, a: jax.Array, b: jax.Array) -> None:
    module = relaxjax.from_jax(function, a, b)
    assert SumsAsProducts()(module) is module


def test_gradients_of_what_was_broadcast_are_products() -> None:
    """Neither needs the broadcast factor, nor the products, in memory."""

    def loss(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.tanh((jnp.tanh(a) * b[:, None]).sum(-1)).sum()

    a, b = drawn(16, 64, 16), drawn(16, 16)
    found = jax.jit(relaxjax.grad(loss, argnums=1)).lower(a, b).as_text()
    assert found.count("dot_general") == 2  # of the loss, and of the gradient
    chex.assert_trees_all_close(
        relaxjax.grad(loss, argnums=1)(a, b), jax.grad(loss, 1)(a, b), rtol=1e-4, atol=1e-4
    )
