"""Train an equinox model by the Trainer, and compare it with the loop that equinox's users write.

    python examples/equinox_digits.py --epochs 5

The parameters are the module itself: its activations and sizes stay as they are, and
`trainer.params` is such a module again. It needs equinox, and begins with 20 steps beside those of
equinox and optax.
"""

import argparse
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from relaxjax import Trainer
from relaxjax.datasets import batches, digits

eqx: Any = import_module("equinox")  # it need not be installed where types are checked


class Network(eqx.Module):
    """Rows of an image mix along their columns, and columns along their rows."""

    inside: Any
    across: list[Any]
    norm: Any
    scores: Any

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 4)
        self.inside = eqx.nn.MLP(8, 32, 32, 1, activation=jax.nn.gelu, key=keys[0])
        self.across = [eqx.nn.Linear(8, 8, key=one) for one in keys[1:3]]
        self.norm = eqx.nn.LayerNorm(32)
        self.scores = eqx.nn.Linear(256, 10, key=keys[3])

    def __call__(self, image: Any) -> Any:
        x = jax.vmap(self.inside)(image.reshape(8, 8))
        for layer in self.across:
            x = x + jax.nn.gelu(jax.vmap(layer, 1, 1)(jax.vmap(self.norm)(x)))
        return self.scores(x.reshape(-1))


OPTIMIZER = optax.adam(2e-3)


def forward(model: Any, images: Any) -> Any:
    return jax.vmap(model)(images)


def loss(model: Any, batch: Any) -> Any:
    images, labels = batch
    scores = forward(model, images)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, labels))


def step(model: Any, opt: Any, batch: Any) -> Any:
    """A step as it is written without relaxjax."""
    _, gradients = eqx.filter_value_and_grad(loss)(model, batch)
    updates, opt = OPTIMIZER.update(gradients, opt, model)
    return eqx.apply_updates(model, updates), opt


def main(epochs: int) -> None:
    data = digits()

    def epoch_of(epoch: int) -> Any:
        return batches(data.train_images, data.train_labels, 32, seed=0, epoch=epoch)

    first, model = list(epoch_of(0))[:20], Network(jax.random.key(0))
    trainer = Trainer.from_jax(loss, model, OPTIMIZER, first[0], forward=forward)
    jitted = eqx.filter_jit(step)
    theirs = model, OPTIMIZER.init(eqx.filter(model, eqx.is_array))
    for batch in first:
        trainer.update(batch)
        theirs = jitted(*theirs, batch)
    both = trainer.params, theirs[0]
    arrays = (jax.tree.leaves(eqx.filter(one, eqx.is_array)) for one in both)
    difference = max(abs(a - b).max() for a, b in zip(*arrays, strict=True))
    print(f"20 steps of a {type(both[0]).__name__}: largest difference {difference:.1e}")

    trainer.fit(epoch_of, epochs)
    scores = trainer.predict(data.test_images)
    print(f"accuracy on test images {np.mean(np.argmax(scores, 1) == data.test_labels):.2%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
