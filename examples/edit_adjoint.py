"""Edit a backward program by hand, and train with it.

    python examples/edit_adjoint.py --epochs 5

Gradient writes the backward pass as a program. Here its text gets three lines more, which keep the
adjoint of the hidden layer short; the edited text is printed, parsed, built and trained with.
"""

import argparse
from typing import no_type_check

import numpy as np

from relaxjax.datasets import batches, digits
from relaxjax.lowering import VirtualMachine, build
from relaxjax.passes import Gradient, SimplifyGradient
from relaxjax.script import from_source
from relaxjax.script import ir as I
from relaxjax.script import relax as R

batch_size = 64
rate = 0.2


@I.ir_module
class Model(I.Module):
    @R.function
    @no_type_check
    def loss(
        w0: R.Tensor((784, 64), "float32"),
        w1: R.Tensor((64, 10), "float32"),
        x: R.Tensor((batch_size, 784), "float32"),
        labels: R.Tensor((batch_size,), "int32"),
    ) -> R.Tuple(R.Tensor((), "float32"), R.Tensor((batch_size, 10), "float32")):
        with R.dataflow():
            hidden = R.nn.relu(R.matmul(x, w0))
            scores = R.nn.log_softmax(R.matmul(hidden, w1))
            loss = R.nn.nll_loss(scores, labels)
            R.output(loss, scores)
        return loss, scores


# What the backward pass computes for the hidden layer, and what is made of it.
LINE = "hidden_adjoint: R.Tensor((64, 64), dtype="
EDIT = """\
size = R.sqrt(R.sum(R.multiply(hidden_adjoint, hidden_adjoint)))
            excess = R.maximum(R.divide(size, R.const(0.05, "float32")), R.const(1, "float32"))
            clipped = R.divide(hidden_adjoint, excess)"""


def edited(text: str) -> str:
    """The backward program with the adjoint of the hidden layer no longer than 0.05."""
    lines: list[str] = []
    for line in text.splitlines():
        done = any(LINE in earlier for earlier in lines)
        lines.append(line.replace("hidden_adjoint", "clipped") if done else line)
        if LINE in line:
            lines.append(f"            {EDIT}")
    assert len(lines) > len(text.splitlines()), "the line to edit is not there"
    return "\n".join(lines)


def main(epochs: int) -> float:
    """Train for some epochs; the accuracy on images that the model was not trained on."""
    adjoint = Gradient("loss", require_grads=["w0", "w1"])(Model)
    text = edited(SimplifyGradient()(adjoint).script())
    print(text)
    vm = VirtualMachine(build(from_source(text)))

    rng = np.random.default_rng(0)
    w0, w1 = (rng.normal(0, 0.05, shape).astype("float32") for shape in ((784, 64), (64, 10)))
    data = digits(28)
    accuracy = 0.0
    for epoch in range(epochs):
        for images, target in batches(
            data.train_images, data.train_labels, batch_size, seed=0, epoch=epoch
        ):
            _, (g0, g1) = vm["loss_adjoint"](w0, w1, images, target)
            w0, w1 = w0 - rate * np.asarray(g0), w1 - rate * np.asarray(g1)
        correct = total = 0
        for images, target in batches(data.test_images, data.test_labels, batch_size):
            _, scores = vm["loss"](w0, w1, images, target)
            correct += int(np.sum(np.argmax(scores, 1) == target))
            total += len(images)
        accuracy = correct / total
        print(f"epoch {epoch}  accuracy on test images {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
