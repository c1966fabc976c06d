"""What depth costs a network of convolutions: its equal blocks as one loop, and one by one.

    python benchmarks/deep_convnets.py
    python benchmarks/deep_convnets.py --blocks 8 16 --channels 64 --size 8 --rounds 5

A block is two convolutions of 3x3 with batch norms, added to what it is given. `jax` is a jitted
and donated step by hand, with Adam of optax; the others are `Trainer.from_jax` of the same loss.
To start is all until the first step is made, in seconds of the CPU. Step times are medians over
rounds in turns, from the same parameters on the same batch; the first losses are compared before.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from surroundings import surroundings, temp_bytes
from timing import in_turns, table

from relaxjax.training import Trainer

BATCH, CLASSES = 16, 10
BY_HAND, UNROLLED, ROLLED = "jax", "one by one", "one loop"
Contestant = tuple[Callable[[], Any], int | None]  # a step, and the bytes that it takes


def convolved(x: Any, kernel: Any) -> Any:
    layouts = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layouts)


def normed(x: Any, scale: Any, bias: Any) -> Any:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def block(params: Any, x: Any) -> Any:
    hidden = jax.nn.relu(normed(convolved(x, params["one"]), *params["norm"]))
    return jax.nn.relu(x + normed(convolved(hidden, params["other"]), *params["normed"]))


def loss(params: Any, batch: Any) -> Any:
    images, labels = batch
    x = convolved(images, params["stem"])
    for of_block in params["blocks"]:
        x = block(of_block, x)
    logits = x.mean((1, 2)) @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def drawn(rng: np.random.Generator, *shape: int) -> Any:
    fan = np.prod(shape[:-1])
    return jnp.asarray(rng.normal(0, (2 / fan) ** 0.5, shape), "float32")


def params_of(rng: np.random.Generator, blocks: int, channels: int) -> Any:
    draw = partial(drawn, rng, 3, 3)
    norm = (jnp.ones(channels), jnp.zeros(channels))
    made = [
        {"one": draw(channels, channels), "other": draw(channels, channels)}
        | {"norm": norm, "normed": norm}
        for _ in range(blocks)
    ]
    return {"stem": draw(3, channels), "blocks": made, "head": drawn(rng, channels, CLASSES)}


def by_hand(params: Any, batch: Any) -> Contestant:
    tx = optax.adam(1e-3)

    def step(params: Any, state: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, batch)
        updates, state = tx.update(gradients, state, params)
        return value, optax.apply_updates(params, updates), state

    held = [jax.tree.map(jnp.array, params), tx.init(params)]
    compiled: Any = jax.jit(step, donate_argnums=(0, 1)).lower(*held, batch).compile()

    def run() -> Any:
        value, *held[:] = compiled(*held, batch)
        return jax.block_until_ready(value)

    return run, temp_bytes(compiled)


def ours(roll: bool, params: Any, batch: Any) -> Contestant:
    trainer = Trainer.from_jax(loss, params, optax.adam(1e-3), batch, roll_blocks=roll)
    return lambda: jax.block_until_ready(trainer.update(batch)), trainer.temporary_bytes(batch)


CONTESTANTS: dict[str, Callable[[Any, Any], Contestant]] = {
    BY_HAND: by_hand,
    UNROLLED: partial(ours, False),
    ROLLED: partial(ours, True),
}


def measured(blocks: int, channels: int, size: int, rounds: int) -> list[list[str]]:
    rng = np.random.default_rng(0)
    params = params_of(rng, blocks, channels)
    images = jnp.asarray(rng.normal(size=(BATCH, size, size, 3)), "float32")
    batch = (images, jnp.arange(BATCH) % CLASSES)
    started, runs, temporary, losses = {}, {}, {}, []
    for name, contestant in CONTESTANTS.items():
        began = time.process_time()
        runs[name], temporary[name] = contestant(params, batch)
        losses.append(float(runs[name]()))
        started[name] = time.process_time() - began
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
    times = in_turns(runs, rounds)
    rows = []
    for name in CONTESTANTS:
        start, taken = started[name], temporary[name]
        of_jax = start / started[BY_HAND], times[name].ratio(times[BY_HAND])
        row = f"{start:.1f}", f"{of_jax[0]:.2f}", f"{times[name].median() * 1e3:.0f}"
        bytes_taken = "?" if taken is None else f"{taken / 2**20:.0f}"
        rows.append([str(blocks), name, *row, f"{of_jax[1]:.2f}", bytes_taken])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--size", type=int, default=16, help="of the images")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    measured(1, given.channels, given.size, 1)  # what a process does once is nobody's time
    rows = [measured(n, given.channels, given.size, given.rounds) for n in given.blocks]
    print(surroundings())
    head = ["blocks", "", "start s", "of jax", "step ms", "of jax", "MiB"]
    print(table(head, [row for of_depth in rows for row in of_depth]))


if __name__ == "__main__":
    main()
