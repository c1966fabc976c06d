"""Where the time to compile goes: tracing, passes and lowering in Python, and XLA afterwards.

    python benchmarks/compile_parts.py
    python benchmarks/compile_parts.py --libraries --only "linen: ResNet-18"

Each loss is compiled by `jax.value_and_grad` and by relaxjax's, in CPU seconds. Columns are parts
of what JAX takes in all. The last one is what passes that took no time would leave: JAX's own part
in Python, and XLA's of our program.
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
from beside_jax import Gradient, trace_before, warm_up
from jax_losses import LOSSES, Case, Draws
from surroundings import surroundings
from timing import table

import relaxjax


class Parts(NamedTuple):
    """CPU seconds, or parts of JAX's."""

    python: float
    xla: float


class Shares(NamedTuple):
    """What is taken as a part of what JAX takes in all."""

    python_of_jax: float
    xla_of_jax: float
    python: float
    xla: float

    @property
    def whole(self) -> float:
        return self.python + self.xla

    @property
    def without_passes(self) -> float:
        return self.python_of_jax + self.xla


def parts(gradient: Gradient, case: Case) -> Parts:
    gc.collect()  # what others left is nobody's time
    start = time.process_time()
    lowered = jax.jit(gradient(case.loss, has_aux=case.has_aux)).lower(case.params, *case.inputs)
    middle = time.process_time()
    lowered.compile()
    return Parts(middle - start, time.process_time() - middle)


def shares(case: Case) -> Shares:
    trace_before(case)
    theirs, ours = parts(jax.value_and_grad, case), parts(relaxjax.value_and_grad, case)
    jax.clear_caches()
    return Shares(*(part / sum(theirs) for part in (*theirs, *ours)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--libraries", action="store_true", help="losses of libraries")
    parser.add_argument("--only", nargs="+", help="the names of some losses")
    options = parser.parse_args()
    losses: Mapping[str, Any] = LOSSES
    if options.libraries:
        losses = import_module("library_losses").LOSSES
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    warm_up([relaxjax.value_and_grad])
    found = {name: shares(losses[name](Draws())) for name in options.only or losses}
    columns = [(*one, one.whole, one.without_passes) for one in found.values()]
    # The parts of one sum have its arithmetic mean, ratios their geometric one.
    *added, whole, least = zip(*columns, strict=True)
    means = [*map(statistics.mean, added), *map(statistics.geometric_mean, (whole, least))]
    rows = [
        (name, *(f"{value:.2f}" for value in values))
        for name, values in (*zip(found, columns, strict=True), ("mean", means))
    ]
    head = ("loss", "JAX: Python", "XLA", "ours: Python", "XLA", "whole", "passes for nothing")
    print(table(head, rows))


if __name__ == "__main__":
    main()
