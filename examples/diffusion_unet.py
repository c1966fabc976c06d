"""Train a diffusion model by the Trainer: a small U-Net in plain JAX that draws digits.

    python examples/diffusion_unet.py --epochs 15

The loss draws a time and noise by a key that the Trainer keeps, and the U-Net learns to tell the
noise from the image. It begins with 20 steps beside those of JAX and optax.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from relaxjax import Trainer
from relaxjax.datasets import batches, digits

WIDTH, TIMES = 24, 16


def initial_params(key: Any) -> Any:
    """Kernels of convolutions, and matrices that tell each layer the time."""
    sizes = [(1, WIDTH), (WIDTH, 2 * WIDTH), (2 * WIDTH, 2 * WIDTH), (4 * WIDTH, WIDTH)]
    sizes.append((2 * WIDTH, 1))
    keys, init = jax.random.split(key, 2 * len(sizes)), jax.nn.initializers.he_normal()
    return [
        {"kernel": init(one, (3, 3, a, b)), "time": init(two, (TIMES, b))}
        for one, two, (a, b) in zip(keys[::2], keys[1::2], sizes, strict=True)
    ]


def conv(layer: Any, x: Any, time: Any, stride: int = 1) -> Any:
    dims = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(
        x, layer["kernel"], (stride, stride), "SAME", dimension_numbers=dims
    )
    return y + (time @ layer["time"])[:, None, None]


def unet(params: Any, x: Any, t: Any) -> Any:
    """The noise in images of a time between 0 and 1."""
    angles = t[:, None] * 2.0 ** jnp.arange(TIMES // 2)
    time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)
    top = jax.nn.silu(conv(params[0], x, time))
    low = jax.nn.silu(conv(params[1], top, time, stride=2))
    deep = jax.nn.silu(conv(params[2], low, time))
    up = jax.image.resize(jnp.concatenate([low, deep], -1), (len(x), 8, 8, 4 * WIDTH), "nearest")
    up = jax.nn.silu(conv(params[3], up, time))
    return conv(params[4], jnp.concatenate([top, up], -1), time)


def loss(params: Any, images: Any, key: Any) -> Any:
    keys = jax.random.split(key)
    t, clean = jax.random.uniform(keys[0], (len(images),)), 2 * images.reshape(-1, 8, 8, 1) - 1
    noise = jax.random.normal(keys[1], clean.shape)
    angle = (t * np.pi / 2)[:, None, None, None]
    noisy = jnp.cos(angle) * clean + jnp.sin(angle) * noise
    return jnp.mean((unet(params, noisy, t) - noise) ** 2)


def main(epochs: int) -> None:
    data, tx = digits(), optax.adam(2e-3)

    def epoch_of(epoch: int) -> Any:
        pairs = batches(data.train_images, data.train_labels, 64, seed=0, epoch=epoch)
        return (images for images, _ in pairs)

    first, params, key = (
        list(epoch_of(0))[:20],
        initial_params(jax.random.key(0)),
        jax.random.key(1),
    )
    trainer = Trainer.from_jax(loss, params, tx, first[0], key=key)

    @jax.jit
    def step(params: Any, opt: Any, key: Any, batch: Any) -> Any:
        key, own = jax.random.split(key)
        updates, opt = tx.update(jax.grad(loss)(params, batch, own), opt, params)
        return optax.apply_updates(params, updates), opt, key

    theirs = params, tx.init(params), key
    for batch in first:
        trainer.update(batch)
        theirs = step(*theirs, batch)
    pairs = zip(jax.tree.leaves(trainer.params), jax.tree.leaves(theirs[0]), strict=True)
    print(f"20 steps: largest difference {max(abs(a - b).max() for a, b in pairs):.1e}")

    trainer.fit(epoch_of, epochs)
    found = jax.jit(loss)(trainer.params, data.test_images, jax.random.key(2))
    print(f"share of the noise that is not told {found:.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    main(parser.parse_args().epochs)
