"""Attention and softmax of half precision in JAX: what is raised, and that it is no less exact."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers_in_jax import drawn, raised
from quickly_compiled_programs import QUICK
from same_results import calls_of

import relaxjax

pytestmark = pytest.mark.usefixtures("ranks_promote", "dtypes_promote")

LENGTH, WIDTH = 6, 4
HALVES = ("bfloat16", "float16")
LOWER = np.tril(np.ones((LENGTH, LENGTH), bool))
SEEN = LOWER | (np.arange(LENGTH) == 3)
EINSUMS = "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd"


def scores(q: Any, k: Any, **options: Any) -> Any:
    return jnp.einsum(EINSUMS[0], q, k, **options) / math.sqrt(WIDTH)


@pytest.fixture
def dtypes_promote() -> Iterator[None]:
    """As most JAX is written."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def by_jax(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def in_half_precision(q: Any, k: Any, v: Any) -> Any:
    """As flax has it unless it is told to take the softmax in float32."""
    hidden = jnp.where(LOWER, scores(q, k), jnp.finfo(q.dtype).min)  # type: ignore[no-untyped-call]  # of JAX
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(hidden), v)


def with_wide_scores(q: Any, k: Any, v: Any) -> Any:
    hidden = jnp.where(LOWER, scores(q, k, preferred_element_type=jnp.float32), -jnp.inf)
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(hidden).astype(v.dtype), v)


def widened(q: Any, k: Any, v: Any) -> Any:
    """The softmax alone in float32."""
    hidden = jnp.where(LOWER, scores(q, k), -jnp.inf).astype("float32")
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(hidden).astype(v.dtype), v)


def under_mask(q: Any, k: Any, v: Any) -> Any:
    hidden = jnp.where(SEEN, scores(q, k).astype("float32"), -1e30)
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(hidden).astype(v.dtype), v)


def to_all(q: Any, k: Any, v: Any) -> Any:
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(scores(q, k)), v)


RAISED: dict[str, tuple[Callable[..., Any], str]] = {
    "by jax.nn": (by_jax, "nn.attention"),
    "by jax.nn, to all": (jax.nn.dot_product_attention, "nn.attention"),
    "in half precision": (in_half_precision, "nn.attention"),
    "with wide scores": (with_wide_scores, "nn.attention"),
    "widened": (widened, "nn.attention"),
    "under a mask": (under_mask, "nn.masked_attention"),
    "to all": (to_all, "nn.attention"),
}


def heads(dtype: str) -> list[Any]:
    return list(jnp.asarray(drawn(3, 2, LENGTH, 3, WIDTH), dtype))


def results(gradient: Any, function: Callable[..., Any], args: list[Any]) -> Any:
    """The result in float32, and the gradients of its sum, weighed so that none cancel."""

    def loss(*given: Any) -> Any:
        result = function(*given).astype("float32")
        return (result * jnp.linspace(-1.0, 1.0, result.size).reshape(result.shape)).sum(), result

    run = gradient(loss, (0, 1, 2), has_aux=True)
    (_, result), gradients = jax.jit(run, compiler_options=QUICK)(*args)
    return jax.tree.map(lambda x: np.asarray(x, "float64"), (result, gradients))


def with_narrow_weights(q: Any, k: Any, v: Any, dtype: str) -> Any:
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(scores(q, k)).astype(dtype).astype(v.dtype), v)


def with_narrow_scores(q: Any, k: Any, v: Any, dtype: str) -> Any:
    narrow = scores(q, k).astype(dtype).astype(v.dtype)
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(jnp.where(SEEN, narrow, -1e30)), v)


def with_narrow_masked_scores(q: Any, k: Any, v: Any, dtype: str) -> Any:
    narrow = jnp.where(SEEN, scores(q, k), -1e30).astype(dtype).astype(v.dtype)
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(narrow), v)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "function", [with_narrow_weights, with_narrow_scores, with_narrow_masked_scores]
)
def test_rounding_that_is_asked_for_in_float32_stays(
    function: Callable[..., Any], dtype: str
) -> None:
    args, narrow = heads("float32"), partial(function, dtype=dtype)
    expected = results(jax.value_and_grad, narrow, args)
    found = results(relaxjax.value_and_grad, narrow, args)
    chex.assert_trees_all_close(found, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", RAISED)
def test_attention_is_raised_and_no_less_exact(name: str, dtype: str) -> None:
    function, operator = RAISED[name]
    args = heads(dtype)
    module = raised(function, *args)
    assert len(calls_of(module, operator)) == 1
    assert relaxjax.to_jax(module, "main")(*args).dtype == dtype
    exact = results(jax.value_and_grad, function, [x.astype("float32") for x in args])
    ours = results(relaxjax.value_and_grad, function, args)
    # XLA has no product of float16 for CPUs that JAX's attention asks for.
    has_one = dtype != "float16" or not name.startswith("by jax.nn")
    theirs = results(jax.value_and_grad, function, args) if has_one else exact
    rounding = float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]  # JAX has no types here
    for one, other, wanted in zip(*map(jax.tree.leaves, (ours, theirs, exact)), strict=True):
        far = np.abs(other - wanted).max() + rounding * np.abs(wanted).max()
        chex.assert_trees_all_close(one, wanted, rtol=0, atol=far)


def as_float32(q: Any, k: Any, v: Any) -> Any:
    weights = jax.nn.softmax(scores(q, k))
    return jnp.einsum(EINSUMS[1], weights, v, preferred_element_type=jnp.float32)


def of_wide_values(q: Any, k: Any, v: Any) -> Any:
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(scores(q, k)).astype("float32"), v + 0.0)


def barely_hidden(q: Any, k: Any, v: Any) -> Any:
    hidden = jnp.where(LOWER, scores(q, k), jnp.asarray(-5e4, q.dtype))
    return jnp.einsum(EINSUMS[1], jax.nn.softmax(hidden), v)


def precisely(q: Any, k: Any, v: Any) -> Any:
    weights = jax.nn.softmax(scores(q, k, precision="highest"))
    return jnp.einsum(EINSUMS[1], weights, v)


@pytest.mark.parametrize("function", [as_float32, of_wide_values, barely_hidden, precisely])
def test_attention_that_asks_for_something_else_stays(function: Callable[..., Any]) -> None:
    q, k, v = heads("float16")
    v = v.astype("float32") if function is of_wide_values else v
    module = raised(function, q, k, v)
    assert not calls_of(module, "nn.attention")
    assert not calls_of(module, "nn.masked_attention")


@pytest.mark.parametrize("dtype", HALVES)
def test_softmax_of_half_precision_is_the_very_same(dtype: str) -> None:
    x = jnp.asarray(drawn(3, 5), dtype)
    module = raised(jax.nn.softmax, x)
    assert calls_of(module, "nn.softmax")
    assert not calls_of(module, "exp")
    chex.assert_trees_all_equal(relaxjax.to_jax(module, "main")(x), jax.nn.softmax(x))


def test_sums_of_other_dtypes_are_no_softmax() -> None:
    def rounded(x: Any) -> Any:
        powers = jnp.exp(x - jnp.max(x, 1, keepdims=True))
        return powers / powers.astype("bfloat16").sum(1, keepdims=True).astype("float32")

    assert not calls_of(raised(rounded, drawn(3, 5)), "nn.softmax")
