"""Where the time of a step of `Trainer.fit` goes on a CPU: XLA's kernels, by their time in a step.

    python benchmarks/step_kernels.py "tutorial's MLP, SGD"
    taskset -c 0 python benchmarks/step_kernels.py "tutorial's MLP, SGD"    # by one core

The profiler is told to look at each kernel, which takes some time by itself. A kernel runs once a
step, and its time is the median of those that `fit` ran; the names are those of the compiled
program, where `ynn_fusion` and `dot` are products of matrices. The rest is kernels with less than a
hundredth of the sum.
"""

import argparse
import gzip
import json
import os
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_enable_xprof_traceme=true"

import jax
from surroundings import surroundings
from timing import table
from train_models import MODELS
from training import BATCHES, OurLoop

_NOT_KERNELS = ("end: ", "Thread", "Thunk", "Slinky", "Pjit", "PyClient", "Cpu", "tfrt", "$", "[")


def profiled(epoch: OurLoop, folder: str) -> dict[str, list[float]]:
    """The microseconds of each run of each kernel, in an epoch after a first one."""
    epoch()
    with jax.profiler.trace(folder):
        epoch()
    (path,) = Path(folder).rglob("*.trace.json.gz")
    found: dict[str, list[float]] = defaultdict(list)
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if event.get("ph") == "X" and not event["name"].startswith(_NOT_KERNELS):
            found[event["name"]].append(event["dur"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", choices=list(MODELS))
    model = MODELS[parser.parse_args().model]()
    steps = 16 * BATCHES
    epoch = OurLoop(model, model.batches(BATCHES) * (steps // BATCHES), "auto", apart=False)
    with tempfile.TemporaryDirectory() as folder:
        found = profiled(epoch, folder)
    medians = {name: statistics.median(t) for name, t in found.items() if len(t) >= steps // 2}
    whole = sum(medians.values())
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    large = sorted((n for n in medians if medians[n] >= whole / 100), key=medians.__getitem__)
    rows = [(name, f"{medians[name]:.1f}") for name in reversed(large)]
    rest = [time for name, time in medians.items() if name not in large]
    rows += [(f"{len(rest)} others", f"{sum(rest):.1f}"), ("together", f"{whole:.1f}")]
    print(table(("kernel", "us"), rows))


if __name__ == "__main__":
    main()
