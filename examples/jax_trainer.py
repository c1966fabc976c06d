"""Train a loss written in plain JAX by the Trainer: the whole step is one planned program.

    python examples/jax_trainer.py --epochs 10 --folder run

The parameters are a pytree, dropout draws by a key that the Trainer keeps, and the optimizer is
one of optax. Kill it and start it again with the same `--folder`: it goes on from its last
checkpoint, and ends with the very same weights.
"""

import argparse
import tempfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from relaxjax import Trainer
from relaxjax.datasets import batches, digits
from relaxjax.training import Checkpoints

BATCH = 32


def initial_params(key: Any) -> Any:
    """Kernels of two convolutions, and a matrix for the scores."""
    keys = jax.random.split(key, 3)
    init = jax.nn.initializers.he_normal()
    return {
        "kernels": [init(keys[0], (3, 3, 1, 16)), init(keys[1], (3, 3, 16, 32))],
        "scores": {"w": init(keys[2], (128, 10)), "b": jnp.zeros((1, 10))},
    }


def model(params: Any, images: Any, key: Any = None) -> Any:
    """Scores of classes; with a key, half of the features are dropped."""
    hidden = images.reshape(-1, 8, 8, 1)
    for kernel in params["kernels"]:
        dims = ("NHWC", "HWIO", "NHWC")
        hidden = jax.lax.conv_general_dilated(
            hidden, kernel, (2, 2), "SAME", dimension_numbers=dims
        )
        hidden = jax.nn.relu(hidden)
    hidden = hidden.reshape(len(images), -1)
    if key is not None:
        hidden = jnp.where(jax.random.bernoulli(key, 0.5, hidden.shape), hidden * 2, 0.0)
    return hidden @ params["scores"]["w"] + params["scores"]["b"]


def loss(params: Any, batch: Any, key: Any) -> Any:
    images, labels = batch
    scores = model(params, images, key)
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def main(epochs: int, folder: str) -> float:
    """Train for some epochs; the accuracy on images that the model was not trained on."""
    data = digits()

    def epoch_of(epoch: int) -> Any:
        return batches(data.train_images, data.train_labels, BATCH, seed=0, epoch=epoch)

    trainer = Trainer.from_jax(
        loss,
        initial_params(jax.random.key(0)),
        optax.adamw(2e-3),
        next(epoch_of(0)),
        key=jax.random.key(1),
        forward=model,
    )
    trainer.fit(epoch_of, epochs, checkpoints=Checkpoints(folder, every=100), resume=True)
    scores = trainer.predict(data.test_images)
    accuracy = float(np.mean(np.argmax(scores, 1) == data.test_labels))
    print(f"{sum(x.size for x in jax.tree.leaves(trainer.params))} numbers in a pytree")
    print(f"accuracy on test images {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--folder", default=tempfile.mkdtemp())
    arguments = parser.parse_args()
    main(arguments.epochs, arguments.folder)
