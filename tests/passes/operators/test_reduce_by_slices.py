"""Sums and maxima along long rows, or over a few elements, are of slices; so are small products."""

from collections.abc import Callable
from types import SimpleNamespace
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
from relaxjax.passes import ReduceBySlices

ON_CPU = jax.default_backend() == "cpu" and jax.device_count() == 1
pytestmark = pytest.mark.skipif(not ON_CPU, reason="other platforms keep the sums")

Case = tuple[Callable[[Any], Any], tuple[int, ...]]


def drawn(*shape: int, dtype: str = "float32") -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), dtype)


def names(mod: IRModule) -> list[str | None]:
    values = [b.value for b in mod["main"].body.bindings()]
    return [operator_name(value) for value in values if isinstance(value, Call)]


def looked_up(table: Any, picks: int) -> Any:
    """Rows of a table, several for each of 256 bags."""
    ids = np.random.default_rng(0).integers(0, table.shape[0], (256, picks))
    return table[jnp.asarray(ids, "int32")]


CHANGED: dict[str, Case] = {
    "a sum over the batch": (lambda x: x.sum(0), (3, 20, 1000)),
    "over many of them": (lambda x: x.sum(0), (277, 17000)),
    "over two axes": (lambda x: x.sum((0, 1)), (2, 3, 17000)),
    "with axes before": (lambda x: x.sum(1), (2, 2, 17000)),
    "of coordinates": (lambda x: (x * x).sum(-1), (6000, 3)),
    "of vectors": (lambda x: x.sum(1), (128, 2, 64)),
    "over eight": (lambda x: x.sum(1), (128, 8, 16)),
    "over two axes around one of length one": (lambda x: x.sum((1, 3)), (4096, 2, 1, 2)),
    "of two classes": (lambda x: x.max(-1), (8192, 2)),
    "minima": (lambda x: x.min(0), (5, 17000)),
    "of rows that are looked up": (lambda x: looked_up(x, 10).sum(1), (50, 32)),
    "the largest of such rows": (lambda x: looked_up(x, 12).max(1), (50, 32)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_slices_are_combined(name: str) -> None:
    function, shape = CHANGED[name]
    x = drawn(*shape)
    mod = ReduceBySlices()(relaxjax.from_jax(function, x))
    assert not any(str(found).startswith("lax.reduce_") for found in names(mod))
    assert names(mod).count("lax.slice") <= 64
    assert ReduceBySlices()(mod) is mod
    chex.assert_trees_all_close(to_jax(mod, "main")(x), function(x), rtol=1e-5, atol=1e-4)


KEPT: dict[str, Case] = {
    "rows of 64 KiB": (lambda x: x.sum(0), (5, 2**14)),
    "a last axis that is not short": (lambda x: x.sum(-1), (8192, 9)),
    "an axis in the middle": (lambda x: x.sum(1), (128, 5, 64)),
    "few numbers": (lambda x: x.sum(-1), (1024, 3)),
    "one element": (lambda x: x.sum(0), (1, 17000)),
    "no elements": (lambda x: x.sum(0), (2, 0, 17000)),
    "an axis between": (lambda x: x.sum((0, 2)), (3, 17000, 2)),
    "integers": (lambda x: x.astype("int32").sum(0), (3, 17000)),
    "half precision": (lambda x: x.astype("bfloat16").max(0), (3, 17000)),
    "products": (lambda x: x.prod(0), (3, 17000)),
    "many rows that are looked up": (lambda x: looked_up(x, 13).sum(1), (50, 32)),
    "rows that are looked up for more": (
        lambda x: (rows := looked_up(x, 10)).sum(1) + rows[:, 0],
        (50, 32),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_sums_stay(name: str) -> None:
    function, shape = KEPT[name]
    mod = relaxjax.from_jax(function, drawn(*shape))
    assert ReduceBySlices()(mod) is mod


Product = tuple[str, tuple[int, ...], tuple[int, ...]]

SMALL: dict[str, Product] = {
    "of transforms": ("bij,bjk->bik", (256, 4, 4), (256, 4, 4)),
    "turned": ("bji,bkj->bik", (256, 4, 5), (256, 3, 4)),
    "of a batch that is last": ("ijb,jkb->bik", (3, 6, 256), (6, 4, 256)),
    "of two batches": ("abij,bajk->abik", (9, 30, 4, 7), (30, 9, 7, 5)),
    "with two axes of rows": ("bhij,bjk->bhik", (270, 2, 3, 4), (270, 4, 3)),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_matrices_are_multiplied_number_by_number(name: str) -> None:
    text, *shapes = SMALL[name]
    a, b = (drawn(*shape) for shape in shapes)
    mod = ReduceBySlices()(relaxjax.from_jax(lambda a, b: jnp.einsum(text, a, b), a, b))
    assert "lax.dot_general" not in names(mod)
    assert ReduceBySlices()(mod) is mod
    chex.assert_trees_all_close(
        to_jax(mod, "main")(a, b), jnp.einsum(text, a, b), rtol=1e-5, atol=1e-5
    )


LARGE: dict[str, Product] = {
    "one matrix": ("ij,jk->ik", (256, 4), (4, 4)),
    "a small batch": ("bij,bjk->bik", (255, 4, 4), (255, 4, 4)),
    "sums of three": ("bij,bjk->bik", (256, 6, 3), (256, 3, 6)),
    "sums of eight": ("bij,bjk->bik", (256, 4, 8), (256, 8, 4)),
    "vectors": ("bij,bj->bi", (256, 32, 4), (256, 4)),
    "few multiplications": ("bij,bjk->bik", (256, 2, 7), (256, 7, 2)),
    "large results": ("bij,bjk->bik", (256, 7, 4), (256, 4, 7)),
    "over two axes": ("bijl,bjlk->bik", (256, 4, 2, 2), (256, 2, 2, 4)),
}


@pytest.mark.parametrize("name", LARGE)
def test_other_products_stay(name: str) -> None:
    text, *shapes = LARGE[name]
    given = (drawn(*shape) for shape in shapes)
    mod = relaxjax.from_jax(lambda a, b: jnp.einsum(text, a, b), *given)
    assert ReduceBySlices()(mod) is mod


@pytest.mark.parametrize("wider", [None, "float32"])
def test_products_of_other_dtypes_stay(wider: str | None) -> None:
    def squared(a: Any) -> Any:
        return jnp.matmul(a, a, preferred_element_type=wider)

    mod = relaxjax.from_jax(squared, drawn(256, 4, 4).astype("bfloat16"))
    assert ReduceBySlices()(mod) is mod


def test_double_precision_has_shorter_rows() -> None:
    with jax.enable_x64(True):
        x = drawn(5, 2**14, dtype="float64")
        mod = ReduceBySlices()(relaxjax.from_jax(lambda x: x.sum(0), x))
        assert "lax.reduce_sum" not in names(mod)
        chex.assert_trees_all_close(to_jax(mod, "main")(x), x.sum(0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["max", "min", "sum"])
def test_what_is_no_number_stays_so(name: str) -> None:
    """Beside NumPy: XLA's own maxima of long rows on a CPU are those of the other numbers."""
    x = drawn(3, 17000).at[1, 5].set(jnp.nan).at[2, 6].set(jnp.inf).at[0, 7].set(-jnp.inf)
    mod = ReduceBySlices()(relaxjax.from_jax(lambda x: getattr(jnp, name)(x, axis=0), x))
    assert "lax.slice" in names(mod)
    expected = getattr(np.asarray(x), name)(axis=0)
    chex.assert_trees_all_close(to_jax(mod, "main")(x), expected, rtol=1e-5, atol=1e-5)


def test_other_platforms_keep_their_sums() -> None:
    function, shape = CHANGED["a sum over the batch"]
    mod = relaxjax.from_jax(function, drawn(*shape))
    with lowering_for("cuda"):
        assert ReduceBySlices()(mod) is mod


@pytest.mark.parametrize(("platform", "devices", "stays"), [("cpu", 2, True), ("gpu", 2, False)])
def test_several_devices_keep_their_sums(
    monkeypatch: pytest.MonkeyPatch, platform: str, devices: int, stays: bool
) -> None:
    """Those of the CPU, if this program is to run here at all."""
    function, shape = CHANGED["a sum over the batch"]
    mod = relaxjax.from_jax(function, drawn(*shape))
    client = SimpleNamespace(device_count=lambda: devices)
    device = SimpleNamespace(platform=platform, client=client)
    monkeypatch.setattr("relaxjax.ops.platform.default_device", lambda: device)
    with lowering_for("cpu"):
        assert (ReduceBySlices()(mod) is mod) == stays


def test_embeddings_of_positions_have_their_gradient_so() -> None:
    def loss(places: Any, x: Any) -> Any:
        return jnp.sin(x + places[None]).sum()

    x, places = drawn(4, 160, 128), drawn(160, 128)
    found = relaxjax.value_and_grad(loss)
    assert "L.slice" in str(found.module(places, x))
    chex.assert_trees_all_close(
        found(places, x), jax.value_and_grad(loss)(places, x), rtol=1e-4, atol=1e-4
    )


def test_it_has_derivatives() -> None:
    x, places = drawn(4, 160, 128), drawn(160, 128)

    def loss(places: Any, x: Any) -> Any:
        return (jnp.sin(x + places[None]) ** 2).sum()

    def slope(gradient: Any) -> Any:
        return jax.grad(lambda places: (gradient(loss)(places, x) ** 2).sum())(places)

    chex.assert_trees_all_close(slope(relaxjax.grad), slope(jax.grad), rtol=1e-4, atol=1e-3)
