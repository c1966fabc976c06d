"""Train a multilayer perceptron with the parts that SetupTrainer and the Trainer are made of.

    python examples/train_mlp_low_level.py --epochs 5

The loss is a function, AppendLoss joins it to the backbone, Gradient writes the backward pass, the
optimizer's update is a function too; then everything is legalised, built, and called in a loop.
"""

import argparse
from typing import no_type_check

import numpy as np

from relaxjax.datasets import batches, digits
from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import MomentumSGD
from relaxjax.passes import AppendLoss, Gradient, LegalizeOps
from relaxjax.script import ir as I
from relaxjax.script import relax as R

batch_size = 64


@I.ir_module
class MLP(I.Module):
    @R.function
    @no_type_check
    def predict(
        w0: R.Tensor((784, 128), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((128, 10), "float32"),
        b1: R.Tensor((10,), "float32"),
        x: R.Tensor((batch_size, 784), "float32"),
    ) -> R.Tensor((batch_size, 10), "float32"):
        with R.dataflow():
            hidden = R.nn.relu(R.add(R.matmul(x, w0), b0))
            out = R.add(R.matmul(hidden, w1), b1)
            R.output(out)
        return out


def main(epochs: int) -> float:
    """Train for some epochs; the accuracy on images that the model was not trained on."""
    predictions = TensorType((batch_size, 10), "float32")
    labels = TensorType((batch_size,), "int32")
    loss = CrossEntropyLoss(reduction="mean")(predictions, labels)
    print(loss.script(show_all_types=False))

    append_loss = AppendLoss("predict", loss, new_func_name="loss")
    mod = append_loss(MLP)
    params = mod["loss"].params[:4]
    mod = Gradient("loss", require_grads=params)(mod)
    print(mod["loss_adjoint"].script(show_all_types=False))

    opt = MomentumSGD(0.1, momentum=0.9).init(params)
    mod = mod.with_function("MomentumSGD", opt.get_function())
    vm = VirtualMachine(build(LegalizeOps()(mod)))

    rng = np.random.default_rng(0)
    values = tuple(
        rng.normal(0, 0.05, [int(size) for size in param.ty.dims]).astype("float32")
        for param in params
    )
    data = digits(28)
    value = accuracy = 0.0
    for epoch in range(epochs):
        for images, target in batches(
            data.train_images, data.train_labels, batch_size, seed=0, epoch=epoch
        ):
            value, gradients = vm["loss_adjoint"](*values, images, target)
            values, opt.state = vm["MomentumSGD"](values, gradients, opt.state)
        correct = total = 0
        for images, target in batches(data.test_images, data.test_labels, batch_size):
            correct += int(np.sum(np.argmax(vm["predict"](*values, images), 1) == target))
            total += len(images)
        accuracy = correct / total
        print(f"epoch {epoch}  loss {float(value):.4f}  accuracy on test images {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
