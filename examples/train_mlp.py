"""Train a multilayer perceptron with the Trainer.

    python examples/train_mlp.py --epochs 5

A backbone, a loss and an optimizer make a module that can be trained; the Trainer holds the
parameters and makes the steps. `examples/train_mlp_low_level.py` does the same by hand.
"""

import argparse
from typing import no_type_check

import numpy as np

from relaxjax.datasets import batches, digits
from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD
from relaxjax.passes import SetupTrainer
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.training import Trainer

batch_size = 64


@I.ir_module
class MLP(I.Module):
    I.module_attrs({"param_num": 6, "state_num": 0})

    @R.function
    @no_type_check
    def backbone(
        x: R.Tensor((batch_size, 784), "float32"),
        w0: R.Tensor((784, 128), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((128, 128), "float32"),
        b1: R.Tensor((128,), "float32"),
        w2: R.Tensor((128, 10), "float32"),
        b2: R.Tensor((10,), "float32"),
    ) -> R.Tensor((batch_size, 10), "float32"):
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            lv4 = R.add(lv3, b1)
            lv5 = R.nn.relu(lv4)
            lv6 = R.matmul(lv5, w2)
            out = R.add(lv6, b2)
            R.output(out)
        return out


def main(epochs: int) -> float:
    """Train for some epochs; the accuracy on images that the model was not trained on."""
    predictions = TensorType((batch_size, 10), "float32")
    labels = TensorType((batch_size, 10), "int64")  # one-hot
    loss = CrossEntropyLoss(reduction="sum")
    optimizer = SGD(0.001, weight_decay=0.01)

    setup = SetupTrainer(loss, optimizer, [predictions, labels])
    train_mod = setup(MLP)
    trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
    trainer.xavier_uniform_init_params(seed=0)

    data = digits(28, one_hot=True)
    accuracy = 0.0
    for epoch in range(epochs):
        for step, (images, target) in enumerate(
            batches(data.train_images, data.train_labels, batch_size, seed=0, epoch=epoch)
        ):
            value = trainer.update(images, target)
            if step % 10 == 0:
                print(f"epoch {epoch}  step {step:2}  loss {float(value):8.3f}")
        correct = total = 0
        for images, target in batches(data.test_images, data.test_labels, batch_size):
            scores = np.asarray(trainer.predict(images))
            correct += int(np.sum(scores.argmax(1) == target.argmax(1)))
            total += len(images)
        accuracy = correct / total
        print(f"epoch {epoch}  accuracy on test images {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
