"""One training step of models of PyTorch: its time and memory here, in PyTorch, and compiled there.

    python tests/long/torch_steps.py make NAMES    where torch and relaxjax are
    python tests/long/torch_steps.py table

A step computes the mean square of the first output, its gradients, and an update by SGD, each
contestant with all cores. They run in turns, and what is told is the median of the rounds' ratios.
The first writes what it finds to benchmarks/results/torch_steps.json.
"""

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks")]
RESULTS = ROOT / "benchmarks" / "results" / "torch_steps.json"
POLICIES = {"here": "auto", "balanced": "balanced"}
RATE = 1e-3
PAIRS = [("here", "eager"), ("here", "compiled"), ("balanced", "eager"), ("balanced", "compiled")]


class TorchStep:
    """A step of PyTorch, eager or compiled."""

    def __init__(self, net: Any, inputs: tuple[Any, ...], target: Any, compiles: bool) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._optimizer = self._torch.optim.SGD(net.parameters(), RATE)
        self._net = self._torch.compile(net) if compiles else net
        self._inputs, self._target = inputs, target

    def differentiate(self) -> None:
        self._optimizer.zero_grad()
        found = first(self._net(*self._inputs))
        self._torch.nn.functional.mse_loss(found, self._target).backward()

    def __call__(self) -> None:
        self.differentiate()
        self._optimizer.step()


def first(outputs: Any) -> Any:
    return outputs[0] if isinstance(outputs, tuple | list) else outputs


def our_step(path: Path, policy: str, inputs: list[Any], target: Any) -> tuple[Any, int | None]:
    """A step here, and the temporary bytes that it needs."""
    import jax

    from relaxjax import from_torch
    from relaxjax.losses import MSELoss
    from relaxjax.optim import SGD

    trainer = from_torch(path).trainer(MSELoss(), SGD(RATE), memory_policy=policy)
    step = lambda: jax.block_until_ready(trainer.update(inputs, target))  # noqa: E731
    return step, trainer.temporary_bytes(inputs, target)


def measured(name: str, rounds: int) -> dict[str, Any]:
    """The times of a model's contestants, and the bytes that each needs beside its arguments."""
    import timing
    import torch_contestant
    import torch_zoo as zoo

    zoo.torch.set_num_threads(torch_contestant.threads())
    net, inputs = zoo.prepared(name, "float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt2")
        zoo.export(net, inputs, path)
        target = zoo.torch.zeros_like(first(net(*inputs)))
        arrays = [one.numpy() for one in inputs]
        steps: dict[str, Callable[[], object]] = {}
        taken: dict[str, int | None] = {}
        for key, policy in POLICIES.items():
            steps[key], taken[key] = our_step(path, policy, arrays, target.numpy())
    for key in ("eager", "compiled"):
        step = TorchStep(net, inputs, target, key == "compiled")
        step()
        steps[key], taken[key] = step, torch_contestant.most_allocated(step.differentiate)
    times = timing.in_turns(steps, rounds)
    ratios = {f"{ours} / {theirs}": times[ours].ratio(times[theirs]) for ours, theirs in PAIRS}
    medians = {key: time.median() for key, time in times.items()}
    return {"seconds": medians, "ratios": ratios, "bytes": taken}


def table() -> str:
    """The rows of docs/coming_from_pytorch.md: times and memory as shares of PyTorch's."""
    heads = [f"{ours} / {theirs}" for ours, theirs in PAIRS]
    rows = ["| model | " + " | ".join([*heads, *(f"memory, {head}" for head in heads)]) + " |"]
    rows.append("|---|" + "---:|" * 2 * len(heads))
    for name, row in json.loads(RESULTS.read_text()).items():
        shares = [row["bytes"][ours] / row["bytes"][theirs] for ours, theirs in PAIRS]
        figures = [*(row["ratios"][head] for head in heads), *shares]
        rows.append(f"| {name} | " + " | ".join(f"{one:.2f}" for one in figures) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "table"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    if given.what == "table":
        print(table())
        return
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.names:
        found[name] = measured(name, given.rounds)
        print(name, json.dumps(found[name]), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
