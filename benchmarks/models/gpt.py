"""A language model of causal attention, of any number of blocks."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from whole_model import Weights, WholeModel, type_of
from whole_sequence_models import EPSILON

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.script import relax as R


@dataclass(frozen=True)
class Gpt(WholeModel):
    """A model whose attention has so many heads, which its parameters do not tell."""

    heads: int


def parameters(layers: int, length: int, width: int, words: int) -> tuple[Any, ...]:
    """Embedding, places, blocks and the last norm; a block is two norms, attention and an MLP."""
    w = Weights("float32")

    def norm() -> Any:
        return w.around(1, width), w.around(0, width)

    def block() -> Any:
        attention = (*w.dense(width, 3 * width), *w.dense(width, width))
        return norm(), attention, norm(), (*w.dense(width, 4 * width), *w.dense(4 * width, width))

    table, places = w.normal(words, width, fan_in=width), w.normal(length, width, fan_in=width)
    return (table, places, *(block() for _ in range(layers)), norm())


def gpt(layers: int, batch: int, length: int, heads: int, width: int, words: int) -> Gpt:
    """Its last layer is the embedding."""
    params = parameters(layers, length, width, words)
    texts = Weights("float32", seed=1).ids(words, batch, length + 1)
    inputs = (texts[:, :-1], texts[:, 1:])
    apart = (batch, length, heads, width // heads)

    def normed(x: Expr, p: Expr) -> Any:
        return R.nn.layer_norm(x, p[0], p[1], axes=[-1], epsilon=EPSILON)

    def attended(x: Expr, p: Expr) -> Any:
        mixed = R.split(R.matmul(x, p[0]) + p[1], 3, axis=-1)
        q, k, v = (R.reshape(mixed[i], apart) for i in range(3))
        seen = R.nn.attention(q, k, v, causal_mask="TopLeft")
        return R.matmul(R.reshape(seen, (batch, length, width)), p[2]) + p[3]

    builder = BlockBuilder()
    names = ["table", "places", *(f"block{i}" for i in range(layers)), "last", "ids", "labels"]
    given = [Var(n, type_of(a)) for n, a in zip(names, (*params, *inputs), strict=True)]
    table, places, *blocks, last, ids, labels = given
    with builder.function("main", given):
        with builder.dataflow():
            x = builder.emit(R.take(table, ids, axis=0) + places)
            for p in blocks:
                x = builder.emit(x + attended(builder.emit(normed(x, p[0])), p[1]))
                hidden = R.nn.gelu(R.matmul(normed(x, p[2]), p[3][0]) + p[3][1])
                x = builder.emit(x + (R.matmul(hidden, p[3][2]) + p[3][3]))
            scores = R.matmul(normed(x, last), R.permute_dims(table))
            flat = R.reshape(R.nn.log_softmax(scores), (batch * length, words))
            loss = R.nn.nll_loss(flat, R.reshape(labels, (batch * length,)))
            result = builder.emit_output(loss, "loss")
        builder.emit_func_output(result)
    return Gpt(builder.get(), plain_gpt(heads), params, inputs, heads)


def plain_gpt(heads: int) -> Any:
    def normed(x: Any, p: Any) -> Any:
        mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + EPSILON) * p[0] + p[1]

    def attended(x: Any, p: Any) -> Any:
        parts = jnp.split(x @ p[0] + p[1], 3, -1)
        q, k, v = (part.reshape(*x.shape[:2], heads, -1) for part in parts)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf))
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p[2] + p[3]

    def plain(table: Any, places: Any, *rest: Any) -> Any:
        *blocks, last, ids, labels = rest
        x = table[ids] + places
        for norm0, attention, norm1, (w0, b0, w1, b1) in blocks:
            x = x + attended(normed(x, norm0), attention)
            hidden = jax.nn.gelu(normed(x, norm1) @ w0 + b0, approximate=False)
            x = x + hidden @ w1 + b1
        scores = normed(x, last) @ table.T
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    return plain
