"""How many steps a second `Trainer.fit` makes, against a loop by hand in JAX and optax, and TVM's.

    python benchmarks/training.py
    python benchmarks/training.py --quick --json out.json
    RELAXJAX_TVM_PYTHON=/path/to/python python benchmarks/training.py   # with TVM's Trainer

Three tables. The first is of whole models. The second is of what a step costs the program that asks
for it, where there are many parameters and little to compute: the CPU time of the calling thread,
while the device works in others. The third is the first one as docs/performance.md has it. All
contestants start from the same parameters and train on the same batches in turns; their losses are
compared before they are timed. The loop by hand is one jitted and donated step, as optax's
documentation has it. `Trainer.fit` decides by itself how many steps a call of the device makes;
where that is more than one, it is timed with one step a call, too.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from surroundings import surroundings
from timing import Times, in_turns, table
from train_models import MODELS, TrainModel, deep

from relaxjax.lowering import VirtualMachine, build
from relaxjax.passes import SetupTrainer
from relaxjax.script import from_source
from relaxjax.training import Lines, Trainer
from relaxjax.training.fit_options import StepsPerCall

BATCHES = 16
BY_HAND, FIT, TVM = "optax by hand", "Trainer.fit", "TVM's Trainer"
SINGLE = f"{FIT}, steps_per_call=1"
QUIET = Lines(lambda line: None)


class OurLoop:
    """`Trainer.fit`, with so many steps a call; `apart` keeps equal layers from being stacked."""

    def __init__(
        self, model: TrainModel, batches: Any, steps_per_call: StepsPerCall, apart: bool
    ) -> None:
        backbone: Any = from_source(model.script)
        options: Any = {"roll_blocks": False} if apart else {}
        mod = SetupTrainer(model.loss, model.optimizer, model.loss_args, **options)(backbone)
        self.trainer = Trainer(mod, VirtualMachine(build(mod, jax.devices()[0])))
        self.trainer.xavier_uniform_init_params(seed=0)
        self.trainer.load_states(model.states)
        self.batches = batches
        self.steps_per_call: StepsPerCall = steps_per_call

    def __call__(self) -> float:
        """An epoch; its mean loss."""
        (report,) = self.trainer.fit(
            self.batches, 1, reporter=QUIET, steps_per_call=self.steps_per_call
        )
        return report.loss


class ByHand:
    """The loop of optax's documentation, from the state that a trainer starts with."""

    def __init__(self, model: TrainModel, batches: Any, trainer: Trainer) -> None:
        def step(params: Any, states: Any, opt: Any, x: Any, labels: Any) -> Any:
            gradient = jax.value_and_grad(model.plain, has_aux=True)
            (loss, states), gradients = gradient(params, states, x, labels)
            updates, opt = model.tx.update(gradients, opt, params)
            return optax.apply_updates(params, updates), states, opt, loss

        self.step = jax.jit(step, donate_argnums=(0, 1, 2))
        self.params, self.states = trainer.export_params(), trainer.export_states()
        self.opt = model.tx.init(self.params)
        self.batches = batches

    def __call__(self) -> float:
        losses = []
        for x, labels in self.batches:
            self.params, self.states, self.opt, loss = self.step(
                self.params, self.states, self.opt, x, labels
            )
            losses.append(loss)
        return float(np.mean([np.asarray(loss) for loss in losses]))


class TvmLoop:
    """TVM's Trainer in a process of its own."""

    def __init__(self, model: TrainModel, batches: Any, trainer: Trainer, python: str) -> None:
        params = {f"param_{name}": np.asarray(p) for name, p in trainer.export_params().items()}
        inputs, targets = (np.stack(part) for part in zip(*batches, strict=True))
        with tempfile.NamedTemporaryFile(suffix=".npz", delete=False) as file:
            np.savez(
                file,
                script=model.script,
                optimizer=str(model.tvm),
                reduction=model.loss.reduction,
                scores=model.scores,
                labels=model.labels,
                inputs=inputs,
                targets=targets,
                **params,  # type: ignore[arg-type]  # arrays by name, as savez takes them
            )
        peer = Path(__file__).with_name("tvm_trainer.py")
        self.process = subprocess.Popen(
            [python, peer, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._said() == "ready"
        os.unlink(file.name)

    def __call__(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("epoch\n")
        self.process.stdin.flush()
        return float(self._said())

    def _said(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            sys.exit("TVM's process has ended; what it said stands above")
        return line

    def end(self) -> None:
        self.process.communicate()


def contestants(model: TrainModel, steps: int, apart: bool) -> dict[str, Any]:
    """Each one's epoch of so many steps, from the same parameters."""
    batches = model.batches(BATCHES) * (steps // BATCHES)
    ours = OurLoop(model, batches, "auto", apart)
    found: dict[str, Any] = {BY_HAND: ByHand(model, batches, ours.trainer), FIT: ours}
    if ours.trainer.best_steps_per_call(batches[0]) > 1:
        found[SINGLE] = OurLoop(model, batches, 1, apart)
    python = os.environ.get("RELAXJAX_TVM_PYTHON")
    if python and model.tvm:
        found[TVM] = TvmLoop(model, batches, ours.trainer, python)
    return found


def compared(name: str, model: TrainModel, args: argparse.Namespace) -> dict[str, Times]:
    """The contestants' times, after a first epoch whose mean losses must agree."""
    epochs = contestants(model, args.steps, args.apart)
    losses = {who: run() for who, run in epochs.items()}
    for who, loss in losses.items():
        if not np.isclose(loss, losses[BY_HAND], rtol=1e-2):
            sys.exit(f"{name}: the mean loss of {who} is {loss}, not {losses[BY_HAND]}")
    times = in_turns(epochs, args.rounds)
    for epoch in epochs.values():
        if isinstance(epoch, TvmLoop):
            epoch.end()
    return times


def speeds(name: str, times: dict[str, Times], steps: int) -> list[dict[str, Any]]:
    """Steps a second of a model, and how many times those of the others."""
    rows = []
    for who, took in times.items():
        quartiles = times[BY_HAND].quartiles(took)
        by_tvm = times[TVM].ratio(took) if TVM in times else None
        by_cpu = None if who == TVM else times[BY_HAND].ratio(took, "cpu")  # TVM has its own
        row = {"model": name, "who": who, "steps/s": steps / took.median()}
        rows.append({**row, "by optax": quartiles, "by CPU": by_cpu, "by TVM": by_tvm})
    return rows


def host_times(arrays: int, times: dict[str, Times], steps: int) -> list[dict[str, Any]]:
    """Microseconds of the calling thread a step."""
    rows = []
    for who, took in times.items():
        micros = 1e6 * took.median("thread") / steps
        share = took.quartiles(times[BY_HAND], "thread")
        rows.append({"arrays": arrays, "who": who, "microseconds": micros, "of optax": share})
    return rows


def printed(speed: list[dict[str, Any]], host: list[dict[str, Any]]) -> str:
    """All three tables."""
    models = [
        (
            row["model"],
            row["who"],
            f"{row['steps/s']:,.1f}",
            *with_quartiles(row["by optax"]),
            "-" if row["by CPU"] is None else f"{row['by CPU']:.2f}",
            "-" if row["by TVM"] is None else f"{row['by TVM']:.1f}",
        )
        for row in speed
    ]
    calls = [
        (
            f"{row['arrays']} arrays, Adam",
            row["who"],
            f"{row['microseconds']:,.0f}",
            *with_quartiles(row["of optax"]),
        )
        for row in host
    ]
    first = ("model", "", "steps/s", "times optax", "quartiles", "by CPU time", "times TVM")
    second = ("parameters", "", "host us a step", "of optax", "quartiles")
    return "\n\n".join([table(first, models), table(second, calls), for_the_docs(speed)])


def for_the_docs(speed: list[dict[str, Any]]) -> str:
    """How many times the steps a second of the loop by hand everyone makes, in Markdown."""
    shown = (FIT, SINGLE, TVM)
    lines = [f"| model | `{FIT}` | with `steps_per_call=1` | {TVM} |", "|---|---|---|---|"]
    for model in dict.fromkeys(row["model"] for row in speed):
        ratios = {row["who"]: row["by optax"][1] for row in speed if row["model"] == model}
        cells = (f"{ratios[who]:.2f}" if who in ratios else "-" for who in shown)
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def with_quartiles(quartiles: tuple[float, float, float]) -> tuple[str, str]:
    low, middle, high = quartiles
    return f"{middle:.2f}", f"{low:.2f}-{high:.2f}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(MODELS)}; else all")
    parser.add_argument("--arrays", type=int, nargs="*", default=[160, 480])
    parser.add_argument("--rounds", type=int, help="default: 15, or 5 if quick")
    parser.add_argument("--steps", type=int, default=64, help=f"a multiple of {BATCHES}")
    parser.add_argument("--apart", action="store_true", help="equal layers are not stacked")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and 160 arrays only")
    parser.add_argument("--json", help="a file to write the results to")
    args = parser.parse_args()
    if unknown := set(args.models) - set(MODELS):
        parser.error(f"there is no model {sorted(unknown)}; there are {', '.join(MODELS)}")
    args.rounds = args.rounds or (5 if args.quick else 15)
    args.arrays = args.arrays[:1] if args.quick else args.arrays
    return args


def main() -> None:
    args, where = parsed(), surroundings()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    speed: list[dict[str, Any]] = []
    for name in args.models or MODELS:
        print(name, file=sys.stderr)
        speed += speeds(name, compared(name, MODELS[name](), args), args.steps)
    host: list[dict[str, Any]] = []
    for count in args.arrays:
        print(f"{count} arrays", file=sys.stderr)
        host += host_times(count, compared(f"{count} arrays", deep(count), args), args.steps)
    print(printed(speed, host))
    if args.json:
        Path(args.json).write_text(json.dumps({**where, "models": speed, "host": host}, indent=1))


if __name__ == "__main__":
    main()
