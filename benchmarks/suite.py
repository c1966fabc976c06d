"""Training steps of whole models, against plain JAX and optax as somebody who knows them writes.

    python benchmarks/suite.py                            # every model
    python benchmarks/suite.py --quick                    # smaller ones, plain and ours: 4 minutes
    python benchmarks/suite.py --only U-Net --contestants plain ours
    python benchmarks/suite.py --keep-memory              # no fresh pages for each step's memory

Contestants start from the same parameters and train on the same data, and their gradients are
compared before they are timed. A step is forward, backward and Adam:

* plain: `jax.jit` of `jax.value_and_grad` and optax, the state donated; the others are divided by
  it. Images are channels last there;
* checkpoint: the same of `jax.checkpoint`, by the policy that takes fewest bytes;
* unoptimised: an adjoint as automatic differentiation writes it and the update, each a program;
* ours: SimplifyGradient after Gradient, and common values merged after LegalizeOps; as SetupTrainer
  does, with Rematerialize by "free" where a step is predicted to need much memory, and less by it;
* free, balanced: the same with Rematerialize by that policy in any case;
* imported: plain, with `relaxjax.value_and_grad` instead of JAX's;
* from_jax: the loss of plain and Adam of optax in a `Trainer.from_jax`;
* torch; torch, compiled: PyTorch's autograd and fused Adam on as many threads, images channels last
  where that is quicker, and the same by `torch.compile`; where PyTorch, and a C++ compiler, are.

Step times are medians of the rounds' ratios with their quartiles. To compile is to trace, transform
and lower a step, and XLA's part, after all contestants have trained a small model; its ratio is of
CPU seconds, which other work disturbs less. Temp is what a program needs beside arguments and
results by XLA's count, and of PyTorch the most that a step allocates at a time; peak is that, the
parameters, Adam's state, the inputs and new results together. Host is the CPU time of the calling
thread, on which PyTorch computes, too.
Results are added to a JSON file, which benchmarks/suite_report.py turns into a table and a plot.
"""

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Protocol

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
import jax.numpy as jnp
import optax
from contestants import CONTESTANTS, training_of
from models import MODELS, QUICK
from models.convnets import ChannelsLast
from surroundings import surroundings
from timing import in_turns, seconds, table
from whole_model import WholeModel

from relaxjax.training import keep_freed_memory

ROUNDS, QUICK_ROUNDS, SHORTEST = 21, 5, 0.02  # seconds a round
PLAIN = "plain"
QUICK_NAMES = [PLAIN, "ours"]  # where none are named
TORCH = {"torch": False, "torch, compiled": True}  # whether it compiles
HEAD = ("model", "contestant", "step", "quartiles", "ms", "compile", "temp", "peak", "host")

Row = dict[str, Any]


class Trains(Protocol):
    """A contestant that trains a model: what `Training` says of itself."""

    loss: Any
    temp_bytes: int
    peak_bytes: int
    compile_seconds: tuple[float, float]

    def __call__(self) -> None: ...

    def gradients(self) -> Any: ...


def lacking(contestant: str) -> str | None:
    """What that contestant needs and is not installed."""
    if contestant in TORCH and find_spec("torch") is None:
        return "PyTorch"
    if TORCH.get(contestant) and which(os.environ.get("CXX", "g++")) is None:
        return "a C++ compiler"
    return None


def trainings(model_name: str, model: WholeModel, names: list[str]) -> dict[str, Trains]:
    """Those contestants, compiled; of `jax.checkpoint` the policy that takes fewest bytes."""
    found: dict[str, Trains] = {}
    for name in names:
        if name in TORCH:
            by_torch = import_module("torch_contestant").TorchTraining
            found[name] = by_torch(model_name, model, compiles=TORCH[name])
            continue
        training, family = training_of(name, model), name.partition(",")[0]
        if family not in found or training.temp_bytes < found[family].temp_bytes:
            found[family] = training
    return found


def started(names: list[str]) -> None:
    """Train a small model by each contestant: what a process does once is nobody's compile time."""
    small = "MLP"
    trainings(small, QUICK[small](), names)
    jax.clear_caches()


def first_of(names: Iterable[str]) -> str:
    """Whom the others are compared with: plain JAX, or the first one where that is left out."""
    return PLAIN if PLAIN in names else next(iter(names))


def check_gradients(model: WholeModel, contestants: dict[str, Trains]) -> float:
    """How far gradients lie from those of the first at most, in parts of their norm.

    More than rounding ends the run: the times would say nothing. Where rounding opens or shuts a
    ReLU, in either program, single numbers of a deep network are further apart than that.
    """
    found, first = {}, first_of(contestants)
    for name, training in contestants.items():
        training()
        is_plain = name in CONTESTANTS and CONTESTANTS[name].is_plain
        is_other = isinstance(model, ChannelsLast) and not is_plain
        gradients = training.gradients()
        found[name] = model.to_plain(gradients) if is_other else gradients  # type: ignore[attr-defined]  # of ChannelsLast
    wanted, worst = jax.tree.leaves(found[first]), 0.0
    whole = float(optax.global_norm(wanted))
    for name, gradients in found.items():
        for mine, other in zip(jax.tree.leaves(gradients), wanted, strict=True):
            scale = max(float(jnp.linalg.norm(other.ravel())), 1e-3 * whole)
            apart = float(jnp.linalg.norm((mine - other).ravel())) / scale
            worst = max(worst, apart)
            if not apart <= 5e-2:
                raise AssertionError(f"{name}: a gradient is {apart:.1e} of its norm apart")
        loss, its_loss = (float(contestants[n].loss) for n in (name, first))
        if not abs(loss - its_loss) <= 1e-4 * max(1.0, abs(its_loss)):
            raise AssertionError(f"{name}: its loss is {loss}, that of {first} {its_loss}")
    return worst


def measured(model_name: str, model: WholeModel, names: list[str], rounds: int) -> dict[str, Row]:
    """What each contestant takes, and its ratios to the first."""
    contestants, first = trainings(model_name, model, names), first_of(names)
    apart = check_gradients(model, contestants)
    count = max(1, round(SHORTEST / min(seconds(contestants[first])[0] for _ in range(2))))

    def several(training: Trains) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                training()

        return run

    times = in_turns({name: several(one) for name, one in contestants.items()}, rounds)
    plain, rows = contestants[first], {}
    for name, training in contestants.items():
        low, middle, high = times[name].quartiles(times[first])
        rows[name] = {
            "step": middle,
            "quartiles": [low, high],
            "step_cpu": times[name].ratio(times[first], "cpu"),
            "seconds": times[name].median() / count,
            "compile": training.compile_seconds[1] / plain.compile_seconds[1],
            "compile_seconds": training.compile_seconds,
            "temp": training.temp_bytes / max(plain.temp_bytes, 1),
            "temp_bytes": training.temp_bytes,
            "peak": training.peak_bytes / plain.peak_bytes,
            "peak_bytes": training.peak_bytes,
            "host": times[name].ratio(times[first], "thread"),
            "host_seconds": times[name].median("thread") / count,
            "rounds": rounds,
            "gradients_apart": apart,
        }
    return rows


def printed(results: dict[str, dict[str, Row]]) -> str:
    rows = [
        (
            model,
            name,
            f"{row['step']:.2f}",
            "-".join(f"{q:.2f}" for q in row["quartiles"]),
            f"{1e3 * row['seconds']:.1f}",
            *(f"{row[key]:.2f}" for key in ("compile", "temp", "peak", "host")),
        )
        for model, found in results.items()
        for name, row in found.items()
    ]
    return table(HEAD, rows)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    names = [*CONTESTANTS, *TORCH]
    parser.add_argument("--contestants", nargs="+", choices=names, metavar="NAME")
    quick = f"smaller models in {QUICK_ROUNDS} rounds, and only {' and '.join(QUICK_NAMES)}"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path, help="default: results/DATE.json, with -quick, -kept")
    kept = "call keep_freed_memory() first: for all contestants, which share the process"
    parser.add_argument("--keep-memory", action="store_true", help=kept)
    args = parser.parse_args()
    for name in args.contestants or ():
        if lacking(name):
            parser.error(f"{name} needs {lacking(name)}, which is not installed: leave it out")
    here = [name for name in names if not lacking(name)]
    args.contestants = args.contestants or (QUICK_NAMES if args.quick else here)
    if PLAIN not in args.contestants:
        parser.error(f"the others are divided by {PLAIN}: name it among the contestants")
    args.rounds = args.rounds or (QUICK_ROUNDS if args.quick else ROUNDS)
    return args


def main() -> None:
    args = parsed()
    if args.keep_memory:
        keep_freed_memory()  # before JAX starts, as it asks
    where = surroundings()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    for name in TORCH:
        if lacking(name) and not args.quick:
            print(f"left out: {name}, which needs {lacking(name)}")
    kinds = ("-quick" if args.quick else "") + ("-kept" if args.keep_memory else "")
    name = f"{where['date']}{kinds}.json"
    path: Path = args.json or Path(__file__).parent / "results" / name
    models = QUICK if args.quick else MODELS
    results: dict[str, dict[str, Row]] = {}
    started(args.contestants)
    for model in args.only:
        results[model] = measured(model, models[model](), args.contestants, args.rounds)
        print(printed({model: results[model]}), file=sys.stderr, flush=True)
        before = json.loads(path.read_text())["models"] if path.exists() else {}
        merged = {name: {**before, **results}[name] for name in MODELS if name in before | results}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**where, "models": merged}, indent=1) + "\n")
        jax.clear_caches()
        gc.collect()
    print(printed(results))


if __name__ == "__main__":
    main()
