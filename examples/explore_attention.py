"""Look at the backward pass of an attention block, written in plain JAX, in a browser.

    python examples/explore_attention.py --out report.html

The page is one file. Its first view joins each line below with the forward and the backward program
that is made of it; the others show its passes, its memory by several plans, and its costs.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp

import relaxjax
from relaxjax.explorer import Explorer

BATCH, LENGTH, WIDTH, HEADS = 8, 64, 128, 4


def attention(p: Any, x: Any) -> Any:
    q, k, v = (split(x @ p[name]) for name in ("q", "k", "v"))
    scores = q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5
    weights = jax.nn.softmax(scores)
    mixed = (weights @ v).swapaxes(1, 2).reshape(x.shape)
    return mixed @ p["out"]


def split(x: Any) -> Any:
    return x.reshape(BATCH, LENGTH, HEADS, -1).swapaxes(1, 2)


def feed_forward(p: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ p["up"]) @ p["down"]


def loss(params: Any, x: Any, y: Any) -> Any:
    for p in params:
        x = x + attention(p, x)
        x = x + feed_forward(p, x)
    return jnp.mean((x - y) ** 2)


def layer(key: Any) -> Any:
    shapes = dict.fromkeys(("q", "k", "v", "out"), (WIDTH, WIDTH))
    shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.normal(k, shape) / shape[0] ** 0.5
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def explored(numbers: bool = False) -> Explorer:
    keys = jax.random.split(jax.random.key(0), 3)
    params = [layer(key) for key in keys]
    x = jax.random.normal(jax.random.key(1), (BATCH, LENGTH, WIDTH))
    step = relaxjax.value_and_grad(loss, memory_policy="balanced")
    return relaxjax.explore(step, params, x, x, title="an attention block", numbers=numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="report.html", help="where to write the page")
    out = parser.parse_args().out
    found = explored()
    found.save(out)
    print(f"{out} opens in any browser and takes {len(found.html()) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
