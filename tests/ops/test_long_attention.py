"""Attention by blocks of scores: which there are, and that they give what all scores at once do."""

import math
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir.op import get_op
from relaxjax.ops.nn import attending
from relaxjax.ops.nn.accelerated_attention import ACCELERATED
from relaxjax.ops.nn.attention import ON_CPU
from relaxjax.ops.nn.long_attention import adjoints, masked, result, scoped
from relaxjax.ops.nn.running_attention import Block
from relaxjax.ops.platform import lowering_for
from relaxjax.ops.traced import differentiated_as

BLOCK = Block(8, 16)
DEFAULTS: dict[str, Any] = {"scale": None, "causal_mask": None, "window_size": None}
LONG = 4096
CAUSAL: dict[str, Any] = {"causal_mask": "TopLeft"}
LAST: dict[str, Any] = {"causal_mask": "BottomRight"}


@pytest.mark.parametrize(
    ("queries", "keys", "stacked", "groups", "window", "block"),
    [
        (1024, 1024, 4, 1, None, None),
        (2047, 2048, 4, 1, None, None),
        (2048, 2048, 4, 1, None, Block(512, 512)),
        (16384, 16384, 1, 1, None, Block(512, 512)),
        (16384, 16384, 64, 1, None, Block(128, 128)),
        (4096, 4096, 16, 1, None, Block(256, 256)),
        (4096, 4096, 2, 4, None, Block(128, 512)),
        (4096, 4096, 2, 64, None, Block(32, 512)),
        (4096, 4096, 4, 1, 256, Block(256, 256)),
        (4096, 4096, 4, 1, 3, Block(128, 128)),
        (1, 2**22, 4, 1, None, None),
        (2**22, 511, 4, 1, None, None),
        (512, 8192, 4, 1, None, Block(512, 512)),
        (4096, 4096, 0, 1, None, None),
        ("unknown", 4096, 4, 1, None, None),
    ],
)
def test_the_blocks_that_are_chosen(
    queries: Any, keys: int, stacked: int, groups: int, window: int | None, block: Block | None
) -> None:
    assert ON_CPU.limits.block(queries, keys, stacked, groups, window) == block


@pytest.mark.parametrize(
    ("queries", "keys", "stacked", "groups", "window", "block"),
    [
        (4096, 4096, 15, 1, None, None),
        (4096, 4096, 16, 1, None, Block(1024, 1024)),
        (4096, 4096, 4, 4, None, Block(512, 2048)),
        (16384, 16384, 1, 1, None, Block(4096, 4096)),
        (4096, 4096, 128, 1, None, Block(512, 512)),
        (16384, 16384, 1, 1, 300, Block(256, 256)),
        (1024, 1024, 1024, 1, None, None),
        ("unknown", 4096, 64, 1, None, None),
    ],
)
def test_the_blocks_that_are_chosen_elsewhere(
    queries: Any, keys: int, stacked: int, groups: int, window: int | None, block: Block | None
) -> None:
    """Where all scores take a GiB or more; the blocks are larger than on a CPU."""
    assert ACCELERATED.limits.block(queries, keys, stacked, groups, window) == block


def _drawn(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), "float32")


def _arrays(queries: int, keys: int, key_heads: int) -> list[Any]:
    """The adjoint of the result, and query, key and value: two batches, two heads."""
    shapes = [(queries, 2, 3), (queries, 2, 4), (keys, key_heads, 4), (keys, key_heads, 3)]
    return [_drawn(2, *shape, seed=seed) for seed, shape in enumerate(shapes)]


def _agree(form: Any, plain: Any, plain_backward: Any, g: Any, *arrays: Any) -> None:
    found, slopes = jax.jit(
        lambda g, *arrays: (result(form, BLOCK, *arrays), adjoints(form, BLOCK, g, *arrays))
    )(g, *arrays)
    wanted, plain_slopes = jax.jit(lambda g, *arrays: (plain(*arrays), plain_backward(g, *arrays)))(
        g, *arrays
    )
    chex.assert_trees_all_close(found, wanted, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_close(slopes, plain_slopes, rtol=1e-4, atol=1e-5)


def _agree_by_scope(options: dict[str, Any], g: Any, *arrays: Any) -> None:
    attrs = DEFAULTS | options
    plain = partial(attending.attention, **attrs, chunked=False)
    plain_backward = partial(attending.attention_backward, **attrs, chunked=False)
    _agree(partial(scoped, **attrs), plain, plain_backward, g, *arrays)


@pytest.mark.parametrize(
    ("queries", "keys", "key_heads", "options"),
    [
        (32, 32, 1, {"scale": 0.3}),
        (37, 21, 2, CAUSAL | {"window_size": 9}),
        (21, 37, 1, LAST | {"window_size": 3}),
        (37, 21, 1, {"window_size": 4}),
    ],
)
def test_blocks_give_what_all_scores_do(
    queries: int, keys: int, key_heads: int, options: dict[str, Any]
) -> None:
    """Lengths are multiples of the blocks or not, and some rows see no key."""
    _agree_by_scope(options, *_arrays(queries, keys, key_heads), None)


@pytest.mark.parametrize("shape", [(2, 2, 21, 37), (2, 1, 21, 1), (1, 2, 1, 37)])
def test_a_bias(shape: tuple[int, ...]) -> None:
    _agree_by_scope(LAST, *_arrays(21, 37, 1), _drawn(*shape, seed=9))


def test_a_bias_that_hides_keys() -> None:
    """All of the first row, and the first blocks of the second one."""
    bias = np.zeros((1, 1, 21, 37), "float32")
    bias[0, 0, 0] = bias[0, 0, 1, :33] = -np.inf
    _agree_by_scope({}, *_arrays(21, 37, 2), jnp.asarray(bias))


def test_a_bias_of_integers_has_no_adjoint() -> None:
    given = (*_arrays(21, 37, 2), jnp.ones((1, 1, 1, 37), "int32"))
    form = partial(adjoints, partial(scoped, **DEFAULTS), BLOCK)
    assert [x.shape for x in jax.eval_shape(form, *given)] == [x.shape for x in given[1:4]]


@pytest.mark.parametrize("shape", [(2, 2, 21, 37), (1, 1, 1, 37)])
def test_a_mask(shape: tuple[int, ...]) -> None:
    """Where all keys are hidden, they are seen alike, and those behind the last one are not."""
    mask = (_drawn(*shape, seed=7) > 0.3).at[0, 0, 0].set(False)
    attrs: dict[str, Any] = {"scale": 0.3, "hidden": -1e30}
    plain = partial(attending.masked_attention, **attrs)
    plain_backward = partial(attending.masked_attention_backward, **attrs)
    _agree(partial(masked, **attrs), plain, plain_backward, *_arrays(21, 37, 1), mask)


@pytest.mark.parametrize("options", [CAUSAL, LAST | {"window_size": 9}])
def test_numbers_that_are_not_finite_spoil_the_same_rows(options: dict[str, Any]) -> None:
    _, query, key, value = _arrays(21, 37, 2)
    for row, number in zip((3, 9, 20), (math.nan, math.inf, -math.inf), strict=True):
        query = query.at[0, row, 1].set(number)
    attrs = DEFAULTS | options
    found = result(partial(scoped, **attrs), BLOCK, query, key, value, None)
    wanted = attending.attention(query, key, value, None, **attrs, chunked=False)
    assert list(np.unique(np.argwhere(np.isnan(found))[:, 1])) == [3, 9, 20]
    chex.assert_trees_all_close(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("scale", "dtype", "tolerance"), [(90, "f4", 1e-5), (1, "bfloat16", 2e-2)])
def test_large_scores_and_half_precision(scale: float, dtype: str, tolerance: float) -> None:
    _, query, key, value = (x.astype(dtype) for x in _arrays(21, 37, 2))
    given = query * scale, -key * scale, value, None
    found = result(partial(scoped, **DEFAULTS | CAUSAL), BLOCK, *given)
    wanted = attending.attention(*given, **DEFAULTS | CAUSAL, chunked=False)
    assert found.dtype == wanted.dtype
    found, wanted = (x.astype("float32") for x in (found, wanted))
    chex.assert_trees_all_close(found, wanted, rtol=tolerance, atol=tolerance)


def test_derivatives_are_those_of_all_scores_at_once() -> None:
    """Of attention and of its backward operator, forward and backward, and under `vmap`."""
    g, *arrays = _arrays(21, 37, 1)
    attrs = DEFAULTS | CAUSAL
    blocks = partial(scoped, **attrs)
    plain = partial(attending.attention, bias=None, **attrs, chunked=False)
    plain_backward = partial(attending.attention_backward, bias=None, **attrs, chunked=False)
    for wanted, compute, given in (
        (plain, lambda *x: result(blocks, BLOCK, *x, None), arrays),
        (plain_backward, lambda *x: adjoints(blocks, BLOCK, *x, None), [g, *arrays]),
    ):
        form, moves = differentiated_as(wanted, compute), [jnp.cos(x) for x in given]
        chex.assert_trees_all_close(
            jax.jvp(form, given, moves), jax.jvp(wanted, given, moves), rtol=1e-4, atol=1e-5
        )
        (out, pullback), (expected, plain_pullback) = (jax.vjp(f, *given) for f in (form, wanted))
        cotangents = jax.tree.map(jnp.cos, expected)
        chex.assert_trees_all_close(out, expected, rtol=1e-4, atol=1e-5)
        chex.assert_trees_all_close(
            pullback(cotangents), plain_pullback(cotangents), rtol=1e-4, atol=1e-5
        )
        if wanted is plain:
            stacked = [jnp.stack([x, 2 * x]) for x in given]
            found, expected = jax.vmap(form)(*stacked), jax.vmap(wanted)(*stacked)
            chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)


def _largest(program: Any) -> int:
    """How many elements the largest array of a program has, inside of its loops too."""
    counts: list[int] = [var.aval.size for eqn in program.eqns for var in eqn.outvars]
    inner = (value for eqn in program.eqns for value in eqn.params.values())
    parts = (part for value in inner for part in (value if isinstance(value, tuple) else [value]))
    programs = (getattr(part, "jaxpr", part) for part in parts)
    return max([*counts, *(_largest(one) for one in programs if hasattr(one, "eqns"))])


# How many keys there are on a platform, and how many numbers the largest array then has.
LENGTHS = {
    "cpu": (LONG, 512 * 512),
    "cuda": (LONG, LONG**2),
    "cuda, longer": (4 * LONG, LONG**2),
    "tpu, longer": (4 * LONG, LONG**2),
}


@pytest.mark.parametrize("where", LENGTHS)
@pytest.mark.parametrize("name", ["attention", "attention_bias", "masked_attention"])
def test_no_array_is_as_large_as_all_scores(name: str, where: str) -> None:
    """The largest is a block of scores: on a CPU from some length on, elsewhere from a GiB on."""
    length, largest = LENGTHS[where]
    x = jax.ShapeDtypeStruct((1, length, 1, 1), "float32")
    table = jax.ShapeDtypeStruct((1, 1, 1, length), "bool" if name == "masked_attention" else "f4")
    attrs: dict[str, Any] = {"scale": None, "hidden": -1e30} if "masked" in name else DEFAULTS
    given = [x, x, x, *([] if name == "attention" else [table])]
    for op, arrays in ((f"relax.nn.{name}", given), (f"relax.grad.{name}_backward", [x, *given])):
        lower: Any = get_op(op).lower
        with lowering_for(where.partition(",")[0]):
            found = jax.make_jaxpr(partial(lower, **attrs))(*arrays)
        assert _largest(found.jaxpr) == largest, op
