"""Train a convolutional network with batch norm and dropout on handwritten digits.

    python examples/cnn_digits.py

In training, batch norm takes the statistics of the batch and keeps running averages of them, and
dropout draws a new mask each step: SetupTrainer sees to both. The averages are states of the model;
the random key becomes one. Prediction takes the averages and drops nothing.
"""

import argparse
from typing import Any, no_type_check

import numpy as np
import optax

from relaxjax import SetupTrainer, TensorType, Trainer, VirtualMachine, build
from relaxjax.datasets import batches, digits
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import from_optax
from relaxjax.script import ir as I
from relaxjax.script import relax as R

BATCH = 32
STEPS = 1442 // BATCH  # in an epoch


@R.macro
def conv(x: Any, kernel: Any) -> Any:
    return R.nn.conv2d(x, kernel, padding=(1, 1))


@R.macro
def norm(x: Any, scale: Any, shift: Any, mean: Any, var: Any) -> Any:
    return R.nn.batch_norm(x, scale, shift, mean, var, axis=1)


@I.ir_module
class CNN(I.Module):
    I.module_attrs({"param_num": 8, "state_num": 4})

    @R.function
    @no_type_check
    def backbone(
        x: R.Tensor((BATCH, 1, 8, 8), "float32"),
        kernel0: R.Tensor((32, 1, 3, 3), "float32"),
        scale0: R.Tensor((32,), "float32"),
        shift0: R.Tensor((32,), "float32"),
        kernel1: R.Tensor((64, 32, 3, 3), "float32"),
        scale1: R.Tensor((64,), "float32"),
        shift1: R.Tensor((64,), "float32"),
        weight: R.Tensor((64 * 4 * 4, 10), "float32"),
        bias: R.Tensor((10,), "float32"),
        mean0: R.Tensor((32,), "float32"),
        var0: R.Tensor((32,), "float32"),
        mean1: R.Tensor((64,), "float32"),
        var1: R.Tensor((64,), "float32"),
    ):
        with R.dataflow():
            normed0 = norm(conv(x, kernel0), scale0, shift0, mean0, var0)
            normed1 = norm(conv(R.nn.relu(normed0[0]), kernel1), scale1, shift1, mean1, var1)
            small = R.nn.max_pool2d(R.nn.relu(normed1[0]), (2, 2), (2, 2))
            thin = R.nn.dropout(R.reshape(small, (BATCH, 64 * 4 * 4)), rate=0.5)
            out = R.add(R.matmul(thin[0], weight), bias)
            new_mean0, new_var0 = normed0[1], normed0[2]
            new_mean1, new_var1 = normed1[1], normed1[2]
            R.output(out, new_mean0, new_var0, new_mean1, new_var1)
        return out, new_mean0, new_var0, new_mean1, new_var1


def main(epochs: int) -> float:
    """Train for some epochs; the accuracy on images that the model was not trained on."""
    data = digits(flatten=False)
    images, test_images = data.train_images[:, None], data.test_images[:, None]  # one channel
    rate = optax.cosine_onecycle_schedule(epochs * STEPS, 0.005)
    setup = SetupTrainer(
        CrossEntropyLoss(label_smoothing=0.1),
        from_optax(optax.adamw(rate, weight_decay=0.05)),
        [TensorType((BATCH, 10), "float32"), TensorType((BATCH,), "int32")],
    )
    train_mod = setup(CNN)
    trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
    trainer.xavier_uniform_init_params(seed=0)
    trainer.load_params({"scale0": np.ones(32), "scale1": np.ones(64)})
    trainer.load_states({"var0": np.ones(32), "var1": np.ones(64)})
    trainer.seed(0)
    reports = trainer.fit(
        lambda epoch: batches(images, data.train_labels, BATCH, seed=0, epoch=epoch),
        epochs,
        list(batches(test_images, data.test_labels, BATCH, drop_last=False)),
    )
    accuracy = reports[-1].accuracy or 0.0
    print(f"accuracy on test images {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    main(parser.parse_args().epochs)
