"""Step times on virtual devices of this CPU, beside what the roofline of `relaxjax plan` says.

    python benchmarks/roofline.py
    python benchmarks/roofline.py --only 0 3 --rounds 5

What the CPU can do is measured first, by one product of matrices and one copy of an array, of all
cores together, and by two GPTs on one device: their steps reach a share of the product's rate, the
`efficiency`. The virtual devices share the cores, so that each has its part of both rates, and what
devices exchange goes through memory, too. Nothing is fitted to what is predicted.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from depth import LENGTH, WORDS, plain_loss, shapes
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from surroundings import surroundings
from timing import table

from relaxjax.trainable.sharding import Distribution
from relaxjax.training import Trainer
from relaxjax.training.devices.device_plan import Candidate, Prediction, held_bytes, predicted
from relaxjax.training.devices.hardware import Hardware
from relaxjax.training.devices.step_counts import counted
from relaxjax.training.layout import Layout

MOST = 4  # devices
Rates = tuple[float, float, float]  # of products, of memory, and what share of the first is reached
SPLIT = {"wide*": P(None, "model"), "narrow*": P("model", None)}


@dataclass(frozen=True)
class Configuration:
    """A GPT, and the mesh that it is trained on."""

    layers: int
    width: int
    samples: int
    mesh: dict[str, int]
    sharding: Any


ON_ONE = [Configuration(2, width, 8, {"data": 1}, "data") for width in (256, 512)]
CONFIGURATIONS = (
    Configuration(2, 256, 8, {"data": 2}, "data"),
    Configuration(2, 256, 8, {"data": 2}, "fsdp"),
    Configuration(2, 256, 8, {"data": 1, "model": 2}, SPLIT),
    Configuration(2, 512, 8, {"data": 2}, "data"),
    Configuration(2, 512, 8, {"data": 2}, "fsdp"),
    Configuration(4, 256, 16, {"data": 2}, "data"),
    Configuration(4, 256, 16, {"data": 4}, "fsdp"),
    Configuration(4, 256, 16, {"data": 2, "model": 2}, SPLIT),
    Configuration(1, 512, 32, {"data": 2}, "data"),
    Configuration(1, 512, 32, {"data": 4}, "data"),
)


def quickest(run: Callable[[], Any], times: int = 7) -> float:
    """The median of the seconds that a call takes."""
    run()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def calibrated(size: int = 2048) -> tuple[float, float]:
    """The flops of a product, and the bytes that a copy reads and writes, by the second."""
    key = jax.random.key(0)
    square = jax.random.normal(key, (size, size))
    product = jax.jit(lambda a: a @ a)
    flops = 2 * size**3 / quickest(lambda: jax.block_until_ready(product(square)))
    # Written over itself: memory that is asked for anew comes page by page, six times as slowly.
    held = [jnp.zeros(2**26, "float32")]
    copy = jax.jit(lambda a: a + 1, donate_argnums=0)

    def over_itself() -> None:
        held[0] = jax.block_until_ready(copy(held[0]))

    moved = 2 * held[0].nbytes / quickest(over_itself)
    return flops, moved


def reached(rates: Rates, rounds: int) -> float:
    """The share of the rate of products that steps on one device reach, in the mean."""
    found = (measured(one, rates, rounds) for one in ON_ONE)
    return statistics.geometric_mean(told.computing / seconds for seconds, told in found)


def measured(one: Configuration, rates: Rates, rounds: int) -> tuple[float, Prediction]:
    """The seconds of a step, and what the roofline says of it."""
    rng = np.random.default_rng(0)
    params = {
        name: rng.normal(0, 0.05, shape).astype("f")
        for name, shape in shapes(one.layers, one.width).items()
    }
    batch = tuple(rng.integers(0, WORDS, (one.samples, LENGTH)).astype("i") for _ in range(2))

    def loss(params: Any, batch: Any) -> Any:
        x, labels = batch
        return plain_loss(one.layers, params, x, labels.reshape(-1))

    trainer = Trainer.from_jax(
        loss, params, optax.adam(1e-3), batch, mesh=one.mesh, sharding=one.sharding
    )
    mesh: Any = trainer.device
    placed = jax.device_put(batch, NamedSharding(mesh, P("data")))
    seconds = quickest(lambda: jax.block_until_ready(trainer.update(placed)), rounds)
    return seconds, prediction(one, trainer, rates)


def prediction(one: Configuration, trainer: Trainer, rates: Rates) -> Prediction:
    candidate = Candidate(one.mesh, one.sharding, "none")
    flops, moved = (rate / candidate.devices for rate in rates[:2])
    on = Hardware(2**40, {"float32": flops}, moved, moved, moved, MOST, efficiency=rates[2])
    spread = Distribution.of(trainer.mod)
    assert spread is not None
    counts = counted(trainer.mod, one.mesh)
    held = held_bytes(Layout.of(trainer.mod).variables, spread)
    return predicted(candidate, [counts], held, on, "float32")


def row(number: int, one: Configuration, rates: Rates, rounds: int) -> list[str]:
    seconds, found = measured(one, rates, rounds)
    kind = one.sharding if isinstance(one.sharding, str) else "patterns"
    return [
        str(number),
        f"{one.layers} layers of {one.width}, {one.samples} samples",
        ",".join(f"{name}={size}" for name, size in one.mesh.items()),
        kind,
        f"{seconds * 1e3:.1f} ms",
        f"{found.seconds * 1e3:.1f} ms",
        f"{found.seconds / seconds - 1:+.0%}",
        *(f"{part * 1e3:.1f} ms" for part in (found.computing, found.moving, found.exchanging)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", type=int, nargs="+", default=list(range(len(CONFIGURATIONS))))
    given = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", MOST)
    flops, moved = calibrated()
    rates = flops, moved, reached((flops, moved, 1.0), given.rounds)
    print(surroundings())
    print(f"a product reaches {flops / 1e9:.0f} Gflop/s, a copy {moved / 1e9:.1f} GB/s,")
    print(f"and steps on one device {rates[2]:.2f} of the first")
    head = ["", "GPT", "mesh", "sharding", "step", "predicted", "apart"]
    head += ["computing", "moving", "exchanging"]
    rows = [row(number, CONFIGURATIONS[number], rates, given.rounds) for number in given.only]
    print(table(head, rows))


if __name__ == "__main__":
    main()
