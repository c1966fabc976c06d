"""Train a haiku model by the Trainer, and compare it with the loop that haiku's users write.

    python examples/haiku_digits.py --epochs 5

A gated recurrent network reads an image row by row. It needs dm-haiku, and begins with 20 steps
beside those of haiku, optax and `jax.grad`.
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

hk: Any = import_module("haiku")  # it need not be installed where types are checked

WIDTH = 64


def network(images: Any) -> Any:
    rows = jnp.swapaxes(images.reshape(-1, 8, 8), 0, 1)
    core = hk.GRU(WIDTH)
    outputs, last = hk.dynamic_unroll(core, rows, core.initial_state(len(images)))
    features = jnp.concatenate([outputs.mean(0), last], axis=1)
    features = hk.LayerNorm(-1, create_scale=True, create_offset=True)(features)
    return hk.nets.MLP([WIDTH, 10])(features)


MODEL = hk.without_apply_rng(hk.transform(network))
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def loss(params: Any, batch: Any) -> Any:
    images, labels = batch
    scores = MODEL.apply(params, images)
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


@jax.jit
def step(params: Any, opt: Any, batch: Any) -> Any:
    """A step as it is written without relaxjax."""
    gradients = jax.grad(loss)(params, batch)
    updates, opt = OPTIMIZER.update(gradients, opt, params)
    return optax.apply_updates(params, updates), opt


def main(epochs: int) -> None:
    data = digits()

    def epoch_of(epoch: int) -> Any:
        return batches(data.train_images, data.train_labels, 32, seed=0, epoch=epoch)

    first = list(epoch_of(0))[:20]
    params = MODEL.init(jax.random.key(0), first[0][0])
    trainer = Trainer.from_jax(loss, params, OPTIMIZER, first[0], forward=MODEL.apply)
    theirs = params, OPTIMIZER.init(params)
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
