"""Models of sequences, each as a Relax program and in plain JAX: a transformer and an LSTM."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from whole_model import Weights, WholeModel, likelihood_loss, type_of

from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.script import tirx as T

EPSILON = 1e-5


def transformer_params(
    w: Weights, blocks: int, length: int, width: int, words: int
) -> tuple[Any, ...]:
    """Embedding, places, blocks and the last norm; a block is two norms, attention and an MLP."""

    def norm() -> Any:
        return w.around(1, width), w.around(0, width)

    def block() -> Any:
        attention = (*w.dense(width, 3 * width), *w.dense(width, width))
        return norm(), attention, norm(), (*w.dense(width, 4 * width), *w.dense(4 * width, width))

    table, places = w.normal(words, width, fan_in=width), w.normal(length, width, fan_in=width)
    return (table, places, *(block() for _ in range(blocks)), norm())


def transformer(
    dtype: str, batch: int = 3, length: int = 5, heads: int = 2, width: int = 6, words: int = 7
) -> WholeModel:
    """A language model of two blocks for any number of texts; its last layer is the embedding."""
    w = Weights(dtype)
    params = transformer_params(w, 2, length, width, words)

    @R.macro
    def normed(x: Any, p: Any) -> Any:
        return R.nn.layer_norm(x, p[0], p[1], axes=[-1], epsilon=EPSILON)

    @R.macro
    def attended(x: Any, p: Any, n: Any) -> Any:
        mixed = R.split(R.add(R.matmul(x, p[0]), p[1]), 3, axis=-1)
        q, k, v = (R.reshape(mixed[i], (n, length, heads, width // heads)) for i in range(3))
        seen = R.nn.attention(q, k, v, causal_mask="TopLeft")
        return R.add(R.matmul(R.reshape(seen, (n, length, width)), p[2]), p[3])

    @R.macro
    def block_of(x: Any, p: Any, n: Any) -> Any:
        y = R.add(x, attended(normed(x, p[0]), p[1], n))
        z, f = normed(y, p[2]), p[3]
        hidden = R.nn.gelu(R.add(R.matmul(z, f[0]), f[1]))
        return R.add(y, R.add(R.matmul(hidden, f[2]), f[3]))

    @I.ir_module
    class Transformer:
        @R.function
        def main(
            words_in: type_of(params[0]),
            places: type_of(params[1]),
            block0: type_of(params[2]),
            block1: type_of(params[3]),
            last: type_of(params[4]),
            ids: R.Tensor(("n", length), "int32"),
            labels: R.Tensor(("n", length), "int32"),
        ) -> R.Tensor((), dtype):
            n = T.int64()
            with R.dataflow():
                x0 = R.add(R.take(words_in, ids, axis=0), places)
                x1 = block_of(x0, block0, n)
                x2 = normed(block_of(x1, block1, n), last)
                scores = R.matmul(x2, R.permute_dims(words_in))
                flat = R.reshape(R.nn.log_softmax(scores), (n * length, words))
                loss = R.nn.nll_loss(flat, R.reshape(labels, (n * length,)))
                R.output(loss)
            return loss

    texts = w.ids(words, batch, length + 1)
    inputs = (texts[:, :-1], texts[:, 1:])
    plain = plain_transformer(heads, likelihood_loss)
    return WholeModel(Transformer, plain, params, inputs)  # type: ignore[arg-type]  # mypy takes it for a class


def plain_transformer(heads: int, loss: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The loss of a transformer in plain JAX, of parameters as `transformer_params` draws them."""

    def normed(x: Any, p: Any) -> Any:
        mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + EPSILON) * p[0] + p[1]

    def attended(x: Any, p: Any) -> Any:
        parts = jnp.split(x @ p[0] + p[1], 3, -1)
        q, k, v = (part.reshape(*x.shape[:2], heads, -1) for part in parts)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(jnp.asarray(q.shape[-1], q.dtype))
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
        return loss(normed(x, last) @ table.T, labels)

    return plain


def lstm(
    dtype: str, steps: int = 6, batch: int = 3, features: int = 4, hidden: int = 5
) -> WholeModel:
    """An LSTM by a loop over time, with a class for each step."""
    classes = 3

    @I.ir_module
    class LSTM:
        @R.function
        def main(
            wx: R.Tensor((features, 4 * hidden), dtype),
            wh: R.Tensor((hidden, 4 * hidden), dtype),
            bias: R.Tensor((4 * hidden,), dtype),
            start: R.Tuple(R.Tensor((batch, hidden), dtype), R.Tensor((batch, hidden), dtype)),
            w_out: R.Tensor((hidden, classes), dtype),
            b_out: R.Tensor((classes,), dtype),
            xs: R.Tensor((steps, batch, features), dtype),
            labels: R.Tensor((steps, batch), "int32"),
        ) -> R.Tensor((), dtype):
            @R.function
            def step(
                state: R.Tuple(R.Tensor((batch, hidden), dtype), R.Tensor((batch, hidden), dtype)),
                x: R.Tensor((batch, features), dtype),
            ) -> R.Tuple(
                R.Tuple(R.Tensor((batch, hidden), dtype), R.Tensor((batch, hidden), dtype)),
                R.Tensor((batch, hidden), dtype),
            ):
                sums = R.add(R.add(R.matmul(x, wx), R.matmul(state[0], wh)), bias)
                gates = R.split(sums, 4, axis=1)
                kept = R.multiply(R.sigmoid(gates[0]), state[1])
                entered = R.multiply(R.sigmoid(gates[1]), R.tanh(gates[2]))
                c = R.add(kept, entered)
                h = R.multiply(R.sigmoid(gates[3]), R.tanh(c))
                return ((h, c), h)

            out = R.scan(step, start, xs)
            scores = R.add(R.matmul(out[1], w_out), b_out)
            flat = R.reshape(R.nn.log_softmax(scores), (steps * batch, classes))
            loss = R.nn.nll_loss(flat, R.reshape(labels, (steps * batch,)))
            return loss  # noqa: RET504  # the target of a gradient is a variable

    def plain(
        wx: Any, wh: Any, bias: Any, start: Any, w_out: Any, b_out: Any, xs: Any, labels: Any
    ) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            forget, enter, new, show = jnp.split(x @ wx + h @ wh + bias, 4, 1)
            c = jax.nn.sigmoid(forget) * c + jax.nn.sigmoid(enter) * jnp.tanh(new)
            h = jax.nn.sigmoid(show) * jnp.tanh(c)
            return (h, c), h

        _, hs = lax.scan(step, start, xs)
        return likelihood_loss(hs @ w_out + b_out, labels)

    w = Weights(dtype)
    params = (
        w.normal(features, 4 * hidden, fan_in=features),
        w.normal(hidden, 4 * hidden, fan_in=hidden),
        w.around(0, 4 * hidden),
        (w.around(0, batch, hidden), w.around(0, batch, hidden)),
        *w.dense(hidden, classes),
    )
    inputs = (w.normal(steps, batch, features), w.ids(classes, steps, batch))
    return WholeModel(LSTM, plain, params, inputs)  # type: ignore[arg-type]  # mypy takes it for a class
