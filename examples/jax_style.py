"""Train in JAX's own style: the gradient comes from relaxjax, the loop from jax.jit and optax.

    python examples/jax_style.py --epochs 5

`to_jax` gives any function of a module as a pure function of JAX arrays: it goes under jit, vmap,
grad and scan like one written by hand. Here it is the adjoint, after a pass has made it shorter.
"""

import argparse
from functools import partial
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
import optax

from relaxjax import to_jax
from relaxjax.datasets import batches, digits
from relaxjax.passes import Gradient, Sequential, SimplifyGradient
from relaxjax.script import ir as I
from relaxjax.script import relax as R


@I.ir_module
class Model(I.Module):
    @R.function
    @no_type_check
    def loss(
        w0: R.Tensor((64, 64), "float32"),
        b0: R.Tensor((64,), "float32"),
        w1: R.Tensor((64, 10), "float32"),
        b1: R.Tensor((10,), "float32"),
        x: R.Tensor(("n", 64), "float32"),
        labels: R.Tensor(("n",), "int32"),
    ) -> R.Tuple(R.Tensor((), "float32"), R.Tensor(("n", 10), "float32")):
        with R.dataflow():
            hidden = R.nn.gelu(R.add(R.matmul(x, w0), b0))
            scores = R.nn.log_softmax(R.add(R.matmul(hidden, w1), b1))
            loss = R.nn.nll_loss(scores, labels)
            R.output(loss, scores)
        return loss, scores


def initial_params(seed: int) -> list[Any]:
    glorot, keys = jax.nn.initializers.glorot_uniform(), jax.random.split(jax.random.key(seed))
    w0, w1 = glorot(keys[0], (64, 64)), glorot(keys[1], (64, 10))
    return [w0, jnp.zeros(64), w1, jnp.zeros(10)]


def main(epochs: int) -> float:
    """Train for some epochs; the accuracy on images that the model was not trained on."""
    backward = Sequential([Gradient("loss", require_grads=["w0", "b0", "w1", "b1"])])
    mod = SimplifyGradient()(backward(Model))
    loss, loss_adjoint = to_jax(mod, "loss"), to_jax(mod, "loss_adjoint")
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.005))

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, state: Any, x: Any, labels: Any) -> Any:
        (value, _), gradients = loss_adjoint(*params, x, labels)
        updates, state = tx.update(list(gradients), state, params)
        return optax.apply_updates(params, updates), state, value

    data, params = digits(), initial_params(seed=0)
    state, value, accuracy = tx.init(params), 0.0, 0.0
    for epoch in range(epochs):
        for images, labels in batches(data.train_images, data.train_labels, 32, seed=epoch):
            params, state, value = step(params, state, images, labels)
        _, scores = loss(*params, data.test_images, data.test_labels)
        accuracy = float(np.mean(np.argmax(scores, 1) == data.test_labels))
        print(f"epoch {epoch}  loss {float(value):.4f}  accuracy on test images {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
