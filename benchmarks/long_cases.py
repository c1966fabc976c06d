"""Attention over long sequences and losses of many words, in Relax and in plain JAX."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from operator_case import Case, floats, ids

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call

Attention = Callable[..., Any]


def _plain_attention(seen: Any, groups: int, q: Any, k: Any, v: Any, bias: Any = None) -> Any:
    k, v = (jnp.repeat(x, groups, 2) for x in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = jnp.where(seen()[None, None], scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def attention(
    kind: str,
    length: int,
    heads: int = 4,
    key_heads: int | None = None,
    window: int | None = None,
    bias: tuple[int, ...] | None = None,
    dtype: str = "float32",
) -> Case:
    """One sequence of heads of 64 numbers each: "causal" or "full", with a window or a bias."""
    shared = key_heads or heads

    def seen() -> Any:
        distance = jnp.arange(length)[:, None] - jnp.arange(length)[None]
        return (distance >= 0) & (distance < (window or length))

    options = {} if kind == "full" else {"causal_mask": "TopLeft", "window_size": window}

    def relax(q: Expr, k: Expr, v: Expr, *table: Expr) -> Expr:
        return call(f"nn.attention{'_bias' if table else ''}", q, k, v, *table, **options)

    draw = partial(floats, dtype=dtype)
    draws = [draw(1, length, count, 64) for count in (heads, shared, shared)]
    draws += [] if bias is None else [draw(*bias)]
    words = [kind, f"T={length}", f"{heads} heads"]
    words += [] if shared == heads else [f"of {shared} keys"]
    words += [] if window is None else [f"window {window}"]
    words += [] if bias is None else [f"bias of {'x'.join(map(str, bias))}"]
    words += [] if dtype == "float32" else [dtype]
    plain = partial(_plain_attention, None if kind == "full" else seen, heads // shared)
    return Case(", ".join(words), relax, plain, tuple(draws))


ATTENTION = [
    attention("causal", 1024),
    attention("causal", 2048),
    attention("full", 2048),
    attention("causal", 4096),
    attention("full", 4096),
    attention("causal", 4096, window=512),
    attention("causal", 4096, heads=8, key_heads=2),
    attention("causal", 4096, bias=(1, 4, 1, 4096)),
    attention("causal", 16384, heads=1),
    attention("full", 16384, heads=1),
]


def _loss(tokens: int, width: int, words: int) -> Case:
    """The mean loss of the words that follow, of a last product without a bias."""

    def relax(x: Expr, w: Expr, labels: Expr) -> Expr:
        scores = call("nn.log_softmax", call("matmul", x, w))
        return call("nn.nll_loss", scores, labels)

    def plain(x: Any, w: Any, labels: Any) -> Any:
        scores = x @ w
        picked = jnp.take_along_axis(scores, labels[:, None], -1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(scores, -1) - picked)

    draws = floats(tokens, width), floats(width, words, scale=0.05), ids(words, tokens)
    return Case(f"{tokens} tokens, {words} words, width {width}", relax, plain, draws)


LOSSES = [_loss(4096, 512, 32000), _loss(1024, 256, 16384), _loss(512, 256, 16384)]

FAMILIES = {"loss": LOSSES, "attention": ATTENTION}
