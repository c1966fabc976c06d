"""The MLP of the tutorial, and a deep one."""

from typing import Any

import jax
import optax
from whole_model import Weights, WholeModel, type_of

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.script import relax as R


def mlp(layers: int, batch: int, features: int, hidden: int, classes: int = 10) -> WholeModel:
    """Layers with GELU between them."""
    w = Weights("float32")
    widths = [features, *[hidden] * (layers - 1), classes]
    params = tuple(w.dense(*widths[i : i + 2]) for i in range(layers))
    inputs = (w.normal(batch, features), w.ids(classes, batch))

    builder = BlockBuilder()
    names = [*(f"layer{i}" for i in range(layers)), "x", "labels"]
    given = [Var(n, type_of(a)) for n, a in zip(names, (*params, *inputs), strict=True)]
    *middle, last, x, labels = given
    with builder.function("main", given):
        with builder.dataflow():
            for p in middle:
                x = builder.emit(R.nn.gelu(R.matmul(x, p[0]) + p[1]))
            scores = builder.emit(R.matmul(x, last[0]) + last[1])
            loss = builder.emit_output(R.nn.nll_loss(R.nn.log_softmax(scores), labels), "loss")
        builder.emit_func_output(loss)

    def plain(*args: Any) -> Any:
        *middle, (w_last, b_last), x, labels = args
        for weight, bias in middle:
            x = jax.nn.gelu(x @ weight + bias, approximate=False)
        scores = x @ w_last + b_last
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    return WholeModel(builder.get(), plain, params, inputs)
