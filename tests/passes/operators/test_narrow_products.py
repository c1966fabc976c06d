"""Gradients of narrow matrices: the narrow factor is turned, not the wide one."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import relaxjax
from relaxjax.ir import Call, IRModule
from relaxjax.ir.op import operator_name
from relaxjax.ir.tensor_types import known_dims
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import NarrowProducts

HERE = jax.default_backend() == "cpu"
pytestmark = pytest.mark.skipif(not HERE, reason="other platforms keep the products")

Case = tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]


def drawn(*shape: int, dtype: str = "float32") -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), dtype)


def einsum(text: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: jnp.einsum(text, a, b)


def turned(x: Any, y: Any) -> Any:
    return jnp.transpose(jnp.sin(x)) @ y


def products(mod: IRModule) -> list[tuple[Any, Any]]:
    """The shapes of what is multiplied."""
    values = [b.value for b in mod["main"].body.bindings() if isinstance(b.value, Call)]
    calls = [call for call in values if operator_name(call) == "lax.dot_general"]
    return [(known_dims(call.args[0]), known_dims(call.args[1])) for call in calls]


NARROW: dict[str, Case] = {
    "summed over rows": (einsum("nk,nc->kc"), (256, 64), (256, 10)),
    "one column": (einsum("nk,nc->kc"), (256, 64), (256, 1)),
    "turned before": (turned, (256, 64), (256, 32)),
    "for each of a batch": (einsum("bnk,bnc->bkc"), (2, 128, 128), (2, 128, 32)),
    "for each of two": (einsum("abnk,abnc->abkc"), (2, 3, 128, 128), (2, 3, 128, 8)),
}


@pytest.mark.parametrize("name", NARROW)
def test_the_narrow_factor_is_first(name: str) -> None:
    function, *shapes = NARROW[name]
    a, b = (drawn(*shape) for shape in shapes)
    mod = NarrowProducts()(relaxjax.from_jax(function, a, b))
    assert products(mod) == [(b.shape, a.shape)]
    assert NarrowProducts()(mod) is mod
    chex.assert_trees_all_close(to_jax(mod, "main")(a, b), function(a, b), rtol=1e-5, atol=1e-4)


KEPT: dict[str, Case] = {
    "too wide": (einsum("nk,nc->kc"), (256, 128), (256, 65)),
    "as wide as the other": (einsum("nk,nc->kc"), (1024, 16), (1024, 16)),
    "wide for a batch": (einsum("bnk,bnc->bkc"), (2, 128, 128), (2, 128, 33)),
    "fewer rows than twice its columns": (einsum("nk,nc->kc"), (63, 1024), (63, 32)),
    "of a batch, with few rows": (einsum("bnk,bnc->bkc"), (2, 15, 2048), (2, 15, 8)),
    "few numbers": (einsum("nk,nc->kc"), (128, 64), (128, 4)),
    "narrow first": (einsum("nc,nk->ck"), (256, 10), (256, 64)),
    "summed over columns": (einsum("kn,nc->kc"), (64, 256), (256, 10)),
    "a batch that is not first": (einsum("nbk,bnc->bkc"), (128, 2, 128), (2, 128, 32)),
    "over two axes": (einsum("mnk,mnc->kc"), (16, 16, 64), (16, 16, 10)),
    "integers": (
        lambda a, b: jnp.einsum("nk,nc->kc", a.astype("int32"), b.astype("int32")),
        (256, 64),
        (256, 10),
    ),
    "half precision": (
        lambda a, b: jnp.einsum("nk,nc->kc", a.astype("bfloat16"), b.astype("bfloat16")),
        (256, 64),
        (256, 10),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_products_stay(name: str) -> None:
    function, *shapes = KEPT[name]
    mod = relaxjax.from_jax(function, *(drawn(*shape) for shape in shapes))
    assert NarrowProducts()(mod) is mod


def test_each_factor_keeps_its_precision() -> None:
    a, b = drawn(256, 64), drawn(256, 10)
    precisions = [("highest", "default"), ("default", "highest")]
    texts = [
        str(
            NarrowProducts()(relaxjax.from_jax(partial(jnp.einsum, "nk,nc->kc", precision=p), a, b))
        )
        for p in precisions
    ]
    turned = [re.findall(r'"Precision": "(\w+)"', text) for text in texts]
    assert turned == [["DEFAULT", "HIGHEST"], ["HIGHEST", "DEFAULT"]]


def test_factors_that_are_read_each_in_its_own_way_stay() -> None:
    algorithm = lax.DotAlgorithm("bfloat16", "float32", "float32")
    function = partial(jnp.einsum, "nk,nc->kc", precision=algorithm)
    mod = relaxjax.from_jax(function, drawn(256, 64), drawn(256, 10))
    assert NarrowProducts()(mod) is mod


def test_other_platforms_keep_their_products() -> None:
    function, *shapes = NARROW["summed over rows"]
    mod = relaxjax.from_jax(function, *(drawn(*shape) for shape in shapes))
    with lowering_for("cuda"):
        assert NarrowProducts()(mod) is mod


def test_the_last_layer_of_a_classifier_has_its_gradient_so() -> None:
    def loss(w: Any, x: Any) -> Any:
        return jax.nn.logsumexp(jnp.sin(x) @ w, axis=-1).sum()

    x, w = drawn(512, 64), drawn(64, 10)
    found = relaxjax.value_and_grad(loss)
    text = str(found.module(w, x))
    assert "R.Tensor((10, 64)" in text
    chex.assert_trees_all_close(found(w, x), jax.value_and_grad(loss)(w, x), rtol=1e-5, atol=1e-4)
    compiled = jax.jit(found).lower(w, x).compile().as_text()
    assert compiled is not None
    assert "f32[10,64]{1,0} dot(" in compiled, "XLA turned it back"


def test_it_has_derivatives() -> None:
    x, w = drawn(512, 64), drawn(64, 10)

    def loss(w: Any, x: Any) -> Any:
        return (jnp.sin(x @ w) ** 2).sum()

    def slope(gradient: Any) -> Any:
        return jax.grad(lambda w: (gradient(loss)(w, x) ** 2).sum())(w)

    chex.assert_trees_all_close(slope(relaxjax.grad), slope(jax.grad), rtol=1e-4, atol=1e-2)
