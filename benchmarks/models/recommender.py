"""A recommender: large tables of embeddings, looked up and summed, below a small MLP."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from whole_model import Weights, WholeModel, type_of

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.script import relax as R


def recommender(
    tables: int, rows: int, width: int, batch: int, picks: int, hidden: int
) -> WholeModel:
    """Each sample picks some rows of each table; the loss is of a click or none."""
    w = Weights("float32")
    embeddings = tuple(w.normal(rows, width, fan_in=width) for _ in range(tables))
    params = (embeddings, w.dense(tables * width, hidden), w.dense(hidden, 1))
    clicks = w.ids(2, batch).astype("float32")
    inputs = (w.ids(rows, tables, batch, picks), clicks)

    builder = BlockBuilder()
    names = ["embeddings", "first", "last", "ids", "clicks"]
    given = [Var(n, type_of(a)) for n, a in zip(names, (*params, *inputs), strict=True)]
    looked_up, first, last, ids, labels = given
    with builder.function("main", given):
        with builder.dataflow():
            bags = []
            for i in range(tables):
                chosen = R.take(ids, R.const(i, "int32"), axis=0)
                bags.append(builder.emit(R.sum(R.take(looked_up[i], chosen, axis=0), axis=[1])))
            h = R.nn.relu(R.matmul(R.concat(bags, axis=1), first[0]) + first[1])
            scores = builder.emit(R.squeeze(R.matmul(h, last[0]) + last[1], axis=[1]))
            each = R.nn.softplus(scores) - labels * scores
            loss = builder.emit_output(R.mean(each), "loss")
        builder.emit_func_output(loss)

    def plain(embeddings: Any, first: Any, last: Any, ids: Any, clicks: Any) -> Any:
        bags = [table[chosen].sum(1) for table, chosen in zip(embeddings, ids, strict=True)]
        h = jax.nn.relu(jnp.concatenate(bags, 1) @ first[0] + first[1])
        scores = (h @ last[0] + last[1])[:, 0]
        return optax.sigmoid_binary_cross_entropy(scores, clicks).mean()

    return WholeModel(builder.get(), plain, params, inputs)
