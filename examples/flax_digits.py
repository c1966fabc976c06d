"""Train a flax model by the Trainer, and compare it with the loop that flax's users write.

    python examples/flax_digits.py --epochs 5

Convolutions with batch norm, whose running means are the model state, and dropout by a key. It
needs flax, and begins with 20 steps beside those of flax, optax and `jax.value_and_grad`.
"""

import argparse
from importlib import import_module
from typing import Any

import jax
import numpy as np
import optax

from relaxjax import Trainer
from relaxjax.datasets import batches, digits

nn: Any = import_module("flax.linen")  # it need not be installed where types are checked


class Network(nn.Module):
    @nn.compact
    def __call__(self, images: Any, train: bool) -> Any:
        x = images.reshape(-1, 8, 8, 1)
        for features in (16, 32):
            x = nn.Conv(features, (3, 3), strides=(2, 2), use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.Dropout(0.3, deterministic=not train)(x.reshape(len(images), -1))
        return nn.Dense(10)(x)


MODEL, OPTIMIZER = Network(), optax.adamw(2e-3)


def loss(params: Any, stats: Any, batch: Any, key: Any) -> Any:
    images, labels = batch
    variables = {"params": params, "batch_stats": stats}
    scores, new = MODEL.apply(
        variables, images, True, rngs={"dropout": key}, mutable=["batch_stats"]
    )
    value = optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()
    return value, (new["batch_stats"], None)


def forward(params: Any, stats: Any, images: Any) -> Any:
    return MODEL.apply({"params": params, "batch_stats": stats}, images, False)


@jax.jit
def step(params: Any, stats: Any, opt: Any, key: Any, batch: Any) -> Any:
    """A step as it is written without relaxjax."""
    key, own = jax.random.split(key)
    both = jax.value_and_grad(loss, has_aux=True)
    (_, (stats, _)), gradients = both(params, stats, batch, own)
    updates, opt = OPTIMIZER.update(gradients, opt, params)
    return optax.apply_updates(params, updates), stats, opt, key


def main(epochs: int) -> None:
    data = digits()

    def epoch_of(epoch: int) -> Any:
        return batches(data.train_images, data.train_labels, 32, seed=0, epoch=epoch)

    first = list(epoch_of(0))[:20]
    variables = MODEL.init(jax.random.key(0), first[0][0], False)
    params, stats, key = variables["params"], variables["batch_stats"], jax.random.key(1)
    trainer = Trainer.from_jax(
        loss, params, OPTIMIZER, first[0], model_state=stats, key=key, forward=forward
    )
    theirs = params, stats, OPTIMIZER.init(params), key
    for batch in first:
        trainer.update(batch)
        theirs = step(*theirs, batch)
    pairs = zip(jax.tree.leaves(trainer.params), jax.tree.leaves(theirs[0]), strict=True)
    print(f"20 steps: largest difference {max(abs(a - b).max() for a, b in pairs):.1e}")

    trainer.fit(epoch_of, epochs)
    scores = trainer.predict(data.test_images)
    print(f"accuracy on test images {np.mean(np.argmax(scores, 1) == data.test_labels):.2%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
