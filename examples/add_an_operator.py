"""Add an operator with its gradient, check it, and train with it.

    python examples/add_an_operator.py --epochs 5

One declaration says everything: the type of the result, what JAX computes, what the gradient is.
From then on scripts know the operator, passes differentiate it, and it prints like any other.
"""

import argparse
from typing import Any, no_type_check

import jax.numpy as jnp

from relaxjax import SetupTrainer, TensorType, Trainer, VirtualMachine, build, op
from relaxjax.datasets import batches, digits
from relaxjax.ir.expr import Expr
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD
from relaxjax.passes import Gradient
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.testing import check_gradients

BATCH = 64


def bend_in_jax(x: Any, width: float) -> Any:
    return (x + jnp.sqrt(x * x + width**2)) / 2


def bend_gradient(g: Expr, y: Expr, x: Expr, width: float) -> Expr:
    """With r = sqrt(x^2 + width^2) it is g * (1 + x / r) / 2, and r is 2y - x."""
    return g * (x / (y * 2.0 - x) + 1.0) * 0.5


@op("relax.mine.bend", lower=bend_in_jax, gradient=bend_gradient)
def bend(x: TensorType, width: float = 1.0) -> TensorType:
    """A relu with a round corner: y = (x + sqrt(x^2 + width^2)) / 2."""
    return x


@I.ir_module
class Single(I.Module):
    @R.function
    @no_type_check
    def main(x: R.Tensor((5,), "float32")) -> R.Tensor((), "float32"):
        with R.dataflow():
            y = R.mine.bend(x, width=0.5)
            loss = R.sum(R.multiply(y, y))
            R.output(loss)
        return loss


@I.ir_module
class MLP(I.Module):
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    @no_type_check
    def backbone(
        x: R.Tensor((BATCH, 64), "float32"),
        w0: R.Tensor((64, 64), "float32"),
        w1: R.Tensor((64, 10), "float32"),
    ) -> R.Tensor((BATCH, 10), "float32"):
        with R.dataflow():
            hidden = R.mine.bend(R.matmul(x, w0), width=0.1)
            out = R.matmul(hidden, w1)
            R.output(out)
        return out


def main(epochs: int) -> float:
    """Check the operator and train; the accuracy on images that the model was not trained on."""
    Gradient("main")(Single)["main_adjoint"].show(show_all_types=False)
    check_gradients(Single)
    print("the gradient of bend is that of JAX, and that of finite differences")

    loss_args = [TensorType((BATCH, 10), "float32"), TensorType((BATCH,), "int32")]
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.5), loss_args)
    train_mod = setup(MLP)
    trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
    trainer.xavier_uniform_init_params(seed=0)
    data = digits()
    reports = trainer.fit(
        lambda epoch: batches(data.train_images, data.train_labels, BATCH, seed=0, epoch=epoch),
        epochs,
        list(batches(data.test_images, data.test_labels, BATCH, drop_last=False)),
    )
    accuracy = reports[-1].accuracy or 0.0
    print(f"accuracy on test images {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
