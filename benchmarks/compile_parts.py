"""Where the time to compile goes: tracing, passes and lowering in Python, and XLA afterwards.

    python benchmarks/compile_parts.py
    python benchmarks/compile_parts.py --libraries --only "linen: ResNet-18"
    python benchmarks/compile_parts.py --suite

Each loss is compiled by `jax.value_and_grad` and by relaxjax's, in CPU seconds; with `--suite`, the
steps of whole models, `ours` and `plain`. Columns are parts of what JAX takes in all. The last one
is what passes that took no time would leave: JAX's own part in Python, and XLA's of our program.
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
from beside_jax import Gradient, trace_before, warm_up
from contestants import CONTESTANTS, Training
from jax_losses import LOSSES, Case, Draws
from models import MODELS, QUICK
from surroundings import surroundings
from timing import table
from whole_model import WholeModel

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
    return _beside(parts(jax.value_and_grad, case), parts(relaxjax.value_and_grad, case))


def shares_of_step(model: Callable[[], WholeModel]) -> Shares:
    """Those of the step of a model of the suite."""

    def taken(name: str) -> Parts:
        gc.collect()
        training = Training(CONTESTANTS[name], model())
        return Parts(training.compile_seconds[1] - training.xla_seconds, training.xla_seconds)

    return _beside(taken("plain"), taken("ours"))


def _beside(theirs: Parts, ours: Parts) -> Shares:
    jax.clear_caches()
    return Shares(*(part / sum(theirs) for part in (*theirs, *ours)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--libraries", action="store_true", help="losses of libraries")
    which.add_argument("--suite", action="store_true", help="whole models, with Adam")
    parser.add_argument("--only", nargs="+", help="the names of some losses or models")
    options = parser.parse_args()
    losses: Mapping[str, Any] = LOSSES
    if options.libraries:
        losses = import_module("library_losses").LOSSES
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    warm_up([relaxjax.value_and_grad])
    if options.suite:
        shares_of_step(QUICK["MLP"])  # what Adam does once is in no compile time, either
        found = {name: shares_of_step(MODELS[name]) for name in options.only or MODELS}
    else:
        found = {name: shares(losses[name](Draws())) for name in options.only or losses}
    columns = [(*one, one.whole, one.without_passes) for one in found.values()]
    # The parts of one sum have its arithmetic mean, ratios their geometric one.
    *added, whole, least = zip(*columns, strict=True)
    means = [*map(statistics.mean, added), *map(statistics.geometric_mean, (whole, least))]
    rows = [
        (name, *(f"{value:.2f}" for value in values))
        for name, values in (*zip(found, columns, strict=True), ("mean", means))
    ]
    head = ("program", "JAX: Python", "XLA", "ours: Python", "XLA", "whole", "passes for nothing")
    print(table(head, rows))


if __name__ == "__main__":
    main()
