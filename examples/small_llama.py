"""Train a small Llama in plain JAX by the Trainer on the manual of Python.

    python examples/small_llama.py --steps 300

Root-mean-square norms, rotary positions, heads that share keys, and gated layers, stacked for a
`jax.lax.scan`. It begins with 20 steps beside those of JAX and optax.
"""

import argparse
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from relaxjax import Trainer
from relaxjax.datasets import batches, text, windows

BATCH, LENGTH, WIDTH, HEADS, GROUPS, LAYERS, WIDE, CHARACTERS = 16, 64, 96, 4, 2, 2, 256, 96
SIZE = WIDTH // HEADS


def initial_params(key: Any) -> Any:
    shapes = {"q": (WIDTH, WIDTH), "kv": (WIDTH, 2 * GROUPS * SIZE), "out": (WIDTH, WIDTH)}
    shapes |= {"gate": (WIDTH, WIDE), "up": (WIDTH, WIDE), "down": (WIDE, WIDTH)}
    keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
    layers = {
        name: jax.random.normal(keys[name], (LAYERS, *shape)) * shape[0] ** -0.5
        for name, shape in shapes.items()
    }
    table = 0.1 * jax.random.normal(key, (CHARACTERS, WIDTH))
    return {"table": table, "layers": layers, "scales": jnp.ones((LAYERS, 2, WIDTH))}


def normed(x: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def rotated(x: Any) -> Any:
    """Each pair of numbers turned by an angle that its place gives."""
    turns = jnp.arange(LENGTH)[:, None] * 1e4 ** (-jnp.arange(SIZE // 2) / (SIZE // 2))
    sin, cos = jnp.sin(turns)[:, None], jnp.cos(turns)[:, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def layer(x: Any, given: Any) -> Any:
    w, scales = given
    y = normed(x) * scales[0]
    q = rotated((y @ w["q"]).reshape(-1, LENGTH, HEADS, SIZE))
    k, v = jnp.split((y @ w["kv"]).reshape(-1, LENGTH, 2 * GROUPS, SIZE), 2, 2)
    seen = jax.nn.dot_product_attention(q, rotated(k), v, is_causal=True)
    x = x + seen.reshape(-1, LENGTH, WIDTH) @ w["out"]
    y = normed(x) * scales[1]
    return x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"], None


def model(params: Any, ids: Any) -> Any:
    x, _ = jax.lax.scan(layer, params["table"][ids], (params["layers"], params["scales"]))
    return normed(x) @ params["table"].T


def loss(params: Any, batch: Any) -> Any:
    ids, following = batch
    scores = model(params, ids)
    return optax.softmax_cross_entropy_with_integer_labels(scores, following).mean()


def main(steps: int) -> None:
    data, params, tx = text(), initial_params(jax.random.key(0)), optax.adamw(3e-3, eps=1e-6)
    pairs = batches(*windows(data.train, LENGTH), BATCH, seed=0)
    given = [(x, y.reshape(x.shape)) for x, y in islice(pairs, steps)]
    trainer = Trainer.from_jax(loss, params, tx, given[0])

    @jax.jit
    def step(params: Any, opt: Any, batch: Any) -> Any:
        updates, opt = tx.update(jax.grad(loss)(params, batch), opt, params)
        return optax.apply_updates(params, updates), opt

    theirs = params, tx.init(params)
    for batch in given[:20]:
        trainer.update(batch)
        theirs = step(*theirs, batch)
    both = zip(jax.tree.leaves(trainer.params), jax.tree.leaves(theirs[0]), strict=True)
    print(f"20 steps: largest difference {max(abs(a - b).max() for a, b in both):.1e}")

    trainer.fit(given)
    test = islice(batches(*windows(data.test, LENGTH), BATCH, seed=0), 8)
    losses: list[Any] = [trainer.evaluate((x, y.reshape(x.shape)))[0] for x, y in test]
    print(f"perplexity {np.exp(np.mean(losses)):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    main(parser.parse_args().steps)
