"""A language model of causal attention, of any number of blocks."""

from dataclasses import dataclass
from typing import Any

import optax
from whole_model import Weights, WholeModel, type_of
from whole_sequence_models import EPSILON, plain_transformer, transformer_params

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.script import relax as R


@dataclass(frozen=True)
class Gpt(WholeModel):
    """A model whose attention has so many heads, which its parameters do not tell."""

    heads: int


def gpt(layers: int, batch: int, length: int, heads: int, width: int, words: int) -> Gpt:
    """Its last layer is the embedding."""
    params = transformer_params(Weights("float32"), layers, length, width, words)
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
    return Gpt(builder.get(), plain_transformer(heads, _likelihood), params, inputs, heads)


def _likelihood(scores: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()
