"""Attention against a loop over the queries in numpy, in chunks and whole, and its adjoints."""

import math
from collections.abc import Iterator
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from applying import applied, inferred, tensor
from numpy_references_attention import attention, attention_var_len, seen_keys
from parsing import parse_flow

from relaxjax import TensorType, TupleType, to_jax
from relaxjax.ops.nn.attending import Chunk, Scope, scope_of
from relaxjax.ops.nn.attending import attention as attend
from relaxjax.ops.nn.attending import attention_backward as attend_backward
from relaxjax.passes import Gradient

Array = np.ndarray[Any, Any]


def _drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _inputs(
    queries: int, keys: int, heads: int = 2, key_heads: int = 2
) -> tuple[Array, Array, Array]:
    shapes = [(2, queries, heads, 4), (2, keys, key_heads, 4), (2, keys, key_heads, 3)]
    q, k, v = (_drawn(*shape, seed=seed) for seed, shape in enumerate(shapes))
    return q, k, v


OPTIONS: list[dict[str, Any]] = [
    {},
    {"scale": 0.3},
    {"causal_mask": "TopLeft"},
    {"causal_mask": "BottomRight"},
    {"causal_mask": "TopLeft", "window_size": 2},
    {"causal_mask": "BottomRight", "window_size": 3},
    {"window_size": 4},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (4, 7), (7, 3), (1, 6)])
def test_attention(queries: int, keys: int, options: dict[str, Any]) -> None:
    """A query that sees no key, as behind a window, gives 0."""
    inputs = _inputs(queries, keys)
    wanted = attention(*inputs, **options)
    found = applied("nn.attention", *inputs, **options)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("keys", [270, 290])
def test_attention_in_chunks(keys: int, options: dict[str, Any]) -> None:
    """More queries than a chunk has, and other numbers of keys."""
    if options.get("window_size"):
        options = {**options, "window_size": 40}
    inputs = _inputs(280, keys, 1, 1)
    found = applied("nn.attention", *inputs, **options)
    np.testing.assert_allclose(found, attention(*inputs, **options), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 4, 5, 7), (1, 1, 1, 7), (2, 1, 5, 1), (1, 4, 1, 1)])
@pytest.mark.parametrize("options", OPTIONS[2:4])
def test_attention_with_a_bias_and_shared_heads(
    shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    inputs, bias = _inputs(5, 7, 4, 2), _drawn(*shape, seed=9)
    found = applied("nn.attention_bias", *inputs, bias, **options)
    np.testing.assert_allclose(found, attention(*inputs, bias, **options), rtol=1e-4, atol=1e-5)


def test_a_bias_may_hide_keys() -> None:
    """With minus infinity: where all are hidden the result is 0, and adjoints are finite."""
    inputs, bias = _inputs(2, 3, 1, 1), np.zeros((1, 1, 2, 3), "float32")
    bias[0, 0, 0] = -np.inf
    bias[0, 0, 1, 2] = -np.inf
    found = applied("nn.attention_bias", *inputs, bias)
    np.testing.assert_allclose(found, attention(*inputs, bias), rtol=1e-4, atol=1e-5)
    g = np.ones_like(found)
    for adjoint in applied("grad.attention_bias_backward", g, *inputs, bias):
        assert np.isfinite(adjoint).all()


def test_a_bias_of_integers_has_no_adjoint() -> None:
    inputs, bias = _inputs(2, 3, 1, 1), np.ones((1, 1, 1, 3), "int32")
    g = _drawn(2, 2, 1, 3)
    found = applied("grad.attention_bias_backward", g, *inputs, bias)
    wanted = applied("grad.attention_backward", g, *inputs)
    chex.assert_trees_all_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_large_scores() -> None:
    """Sums of exponentials of what is far below zero do not vanish."""
    q, k, v = _inputs(4, 4, 1, 1)
    q, k = abs(q) * 90, -abs(k) * 90
    found = applied("nn.attention", q, k, v, causal_mask="TopLeft")
    wanted = attention(q, k, v, causal_mask="TopLeft")
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def _plainly(options: dict[str, Any], heads: int) -> Any:
    """Attention as one formula, which JAX differentiates."""

    def run(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        k, v = (jnp.repeat(part, heads // part.shape[2], 2) for part in (k, v))
        scale = options.get("scale", 1 / math.sqrt(q.shape[3]))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * scale
        scores = scores if bias is None else scores + bias
        mask, window = options.get("causal_mask"), options.get("window_size")
        seen = np.zeros((1, 1, q.shape[1], k.shape[1]), bool)
        for i in range(q.shape[1]):
            seen[0, 0, i, seen_keys(i, q.shape[1], k.shape[1], mask, window)] = True
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), -1)
        return jnp.einsum("bhqk,bkhd->bqhd", jnp.where(seen, weights, 0), v)

    return run


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("queries", "keys", "key_heads"), [(5, 7, 1), (7, 5, 2), (270, 140, 1)])
def test_adjoints(queries: int, keys: int, key_heads: int, options: dict[str, Any]) -> None:
    inputs = _inputs(queries, keys, 2, key_heads)
    g = _drawn(2, queries, 2, 3, seed=5)
    found = applied("grad.attention_backward", g, *inputs, **options)
    _, pullback = jax.vjp(_plainly(options, 2), *inputs)
    chex.assert_trees_all_close(found, jax.tree.map(np.asarray, pullback(g)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 2, 150, 150), (1, 1, 1, 150), (2, 1, 150, 1), (1, 2, 1, 1)])
def test_the_adjoint_of_a_bias(shape: tuple[int, ...]) -> None:
    """Summed where the bias was repeated, over the chunks too."""
    inputs, bias = _inputs(150, 150, 2, 1), _drawn(*shape, seed=8)
    g = _drawn(2, 150, 2, 3, seed=5)
    for options in OPTIONS[:3:2]:
        found = applied("grad.attention_bias_backward", g, *inputs, bias, **options)
        _, pullback = jax.vjp(_plainly(options, 2), *inputs, bias)
        wanted = jax.tree.map(np.asarray, pullback(g))
        chex.assert_trees_all_close(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mask", [None, "TopLeft", "BottomRight"])
def test_packed_sequences_do_not_see_one_another(mask: str | None) -> None:
    """Of three sequences, each is attention by itself; places behind the last one are 0."""
    q, k, v = _drawn(1, 10, 2, 4), _drawn(1, 8, 2, 4, seed=1), _drawn(1, 8, 2, 3, seed=2)
    starts, key_starts = [0, 2, 5, 9], [0, 3, 4, 7]
    lengths = np.array(4, "int32"), np.array(3, "int32")
    packed = q, k, v, np.array(starts, "int32"), lengths[0], np.array(key_starts, "int32")
    found = applied("nn.attention_var_len", *packed, lengths[1], causal_mask=mask)
    wanted = attention_var_len(*packed, causal_mask=mask)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[:, 9:], np.zeros((1, 1, 2, 3)))


def test_narrow_dtypes() -> None:
    """The products are summed, and the softmax taken, in float32."""
    inputs = [jnp.asarray(x, jnp.bfloat16) for x in _inputs(40, 40)]
    found = applied("nn.attention", *map(np.asarray, inputs), causal_mask="TopLeft")
    assert found.dtype == jnp.bfloat16
    q, k, v = (np.asarray(x, np.float32) for x in inputs)
    wanted = attention(q, k, v, causal_mask="TopLeft")
    np.testing.assert_allclose(found.astype("float32"), wanted, rtol=3e-2, atol=3e-2)


def test_chunks() -> None:
    """A chunk has the keys that one of its queries sees, and a program not more than eight."""
    causal = scope_of(300, 300, "TopLeft", None, True)
    assert list(causal.chunks(300, 300)) == [
        Chunk(0, 128, 0, 128),
        Chunk(128, 256, 0, 256),
        Chunk(256, 300, 0, 300),
    ]
    local = scope_of(300, 300, "TopLeft", 10, True)
    assert list(local.chunks(300, 300))[1] == Chunk(128, 256, 119, 256)
    assert list(Scope(False, 0, None, True).chunks(4000, 4000)) == [Chunk(0, 4000, 0, 4000)]
    assert len(list(causal.chunks(100_000, 100_000))) == 8
    behind = scope_of(300, 100, "TopLeft", 10, True)
    assert list(behind.chunks(300, 100))[2] == Chunk(256, 300, 99, 100)


def test_a_backward_program_calls_the_backward_operator() -> None:
    body = """
        y = R.nn.attention(q, k, k, causal_mask="BottomRight")
        gv = R.sum(R.multiply(y, y))
    """
    module = parse_flow(body, q=(1, 3, 2, 4), k=(1, 5, 1, 4))
    adjoint = Gradient("main")(module)
    assert "R.grad.attention_backward(" in adjoint.script()
    q, k = _drawn(1, 3, 2, 4), _drawn(1, 5, 1, 4, seed=1)

    def loss(q: Any, k: Any) -> Any:
        return jnp.sum(_plainly({"causal_mask": "BottomRight"}, 2)(q, k, k) ** 2)

    found = to_jax(adjoint, "main_adjoint")(q, k)
    chex.assert_trees_all_close(found, jax.value_and_grad(loss, (0, 1))(q, k), rtol=1e-4)


def test_types_of_adjoints() -> None:
    q, k, v = tensor(2, 5, 4, 3), tensor(2, 7, 2, 3), tensor(2, 7, 2, 6)
    g = tensor(2, 5, 4, 6)
    assert inferred("grad.attention_backward", g, q, k, v) == TupleType((q, k, v))
    bias = tensor(1, 4, 1, 7)
    found = inferred("grad.attention_bias_backward", g, q, k, v, bias)
    assert found == TupleType((q, k, v, bias))
    found = inferred("grad.attention_bias_backward", g, q, k, v, tensor(1, 4, 1, 7, dtype="int32"))
    assert found == TupleType((q, k, v))
    unknown = TensorType(None, "float32", 4)
    assert inferred("nn.attention", unknown, k, v) == unknown


@pytest.mark.parametrize("mask", ["TopLeft", None])
def test_no_quotient_is_as_large_as_the_scores(mask: str | None) -> None:
    """The means are divided forward, and nothing is backward."""
    given = [jnp.ones((2, 24, 3, 4)) for _ in range(4)]
    options = (None, None, mask, None, True)
    forward = jax.make_jaxpr(lambda q, k, v: attend(q, k, v, *options))(*given[:3])
    backward = jax.make_jaxpr(lambda g, q, k, v: attend_backward(g, q, k, v, *options))(*given)
    divided = [eqn.outvars[0].aval.shape for eqn in quotients(forward.jaxpr)]
    assert divided == [(2, 3, 24, 4)]
    assert not list(quotients(backward.jaxpr))


def quotients(jaxpr: Any) -> Iterator[Any]:
    """The divisions of a program and of those that it calls."""
    for eqn in jaxpr.eqns:
        inner = [getattr(value, "jaxpr", value) for value in eqn.params.values()]
        for program in inner:
            if hasattr(program, "eqns"):
                yield from quotients(program)
        if eqn.primitive.name == "div":
            yield eqn


def test_adjoints_in_float16_that_would_overflow_unscaled() -> None:
    """Of scores: 262144 before the factor of 1/64, which float16 cannot hold, and 4096 after it."""
    random = np.random.default_rng(0)
    query, key = (random.normal(scale=0.1, size=(1, 4, 1, 64)) for _ in range(2))
    value = np.repeat([[[[64.0]], [[-64.0]], [[64.0]], [[-64.0]]]], 64, axis=3)
    given = [jnp.asarray(x, "float16") for x in (np.full(value.shape, 64.0), query, key, value)]

    def adjoints(g: Any, q: Any, k: Any, v: Any) -> Any:
        return attend_backward(g, q, k, v, None, 1 / 64, None, None, True)

    narrow, wide = adjoints(*given), adjoints(*(x.astype("float32") for x in given))
    chex.assert_trees_all_close(
        [x.astype("float32") for x in narrow[:2]], list(wide[:2]), rtol=2e-3, atol=1.0
    )
