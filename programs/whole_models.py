"""Whole models that several tests share, each as a Relax program and in plain JAX."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from whole_image_models import lenet, unet
from whole_model import Weights, WholeModel
from whole_residual_models import resnet18, resnet50
from whole_sequence_models import lstm, transformer

from relaxjax.script import ir as I
from relaxjax.script import relax as R


def mlp(
    dtype: str, batch: int = 6, features: int = 5, hidden: int = 7, classes: int = 3
) -> WholeModel:
    """Three layers and labels one-hot, as in the tutorial."""

    @I.ir_module
    class MLP:
        @R.function
        def main(
            w0: R.Tensor((features, hidden), dtype),
            b0: R.Tensor((hidden,), dtype),
            w1: R.Tensor((hidden, hidden), dtype),
            b1: R.Tensor((hidden,), dtype),
            w2: R.Tensor((hidden, classes), dtype),
            b2: R.Tensor((classes,), dtype),
            x: R.Tensor((batch, features), dtype),
            labels: R.Tensor((batch, classes), dtype),
        ) -> R.Tensor((), dtype):
            with R.dataflow():
                lv0 = R.matmul(x, w0)
                lv1 = R.add(lv0, b0)
                lv2 = R.nn.relu(lv1)
                lv3 = R.matmul(lv2, w1)
                lv4 = R.add(lv3, b1)
                lv5 = R.nn.relu(lv4)
                lv6 = R.matmul(lv5, w2)
                out = R.add(lv6, b2)
                logits = R.nn.log_softmax(out)
                loss = R.nn.cross_entropy_with_logits(logits, labels)
                R.output(loss)
            return loss

    def plain(w0: Any, b0: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
        hidden = jax.nn.relu(jax.nn.relu(x @ w0 + b0) @ w1 + b1)
        return -(jax.nn.log_softmax(hidden @ w2 + b2) * labels).sum() / len(x)

    w = Weights(dtype)
    layers = [(features, hidden), (hidden, hidden), (hidden, classes)]
    params = tuple(array for layer in layers for array in w.dense(*layer))
    labels = np.eye(classes, dtype=dtype)[w.ids(classes, batch)]
    return WholeModel(MLP, plain, params, (w.normal(batch, features), labels))  # type: ignore[arg-type]  # mypy takes it for a class


# Each takes the name of a floating-point dtype.
MODELS: dict[str, Callable[[str], WholeModel]] = {
    "MLP": mlp,
    "LeNet": lenet,
    "ResNet-18": resnet18,
    "ResNet-50": resnet50,
    "U-Net": unet,
    "transformer": transformer,
    "LSTM": lstm,
}
