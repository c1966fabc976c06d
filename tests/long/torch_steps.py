"""One training step of models of PyTorch: its time and memory here, in PyTorch, and compiled there.

    python tests/long/torch_steps.py                 every model that has no row yet
    python tests/long/torch_steps.py mlp vit         these models, with a row or without
    python tests/long/torch_steps.py --page          writes the table anew, measures nothing

A step computes the mean square of the first output, its gradients, and an update by SGD. They run
in turns, and what is told is the median of the rounds' ratios. PyTorch has one thread or all cores,
whichever is quicker for its eager step: small models wait more for threads than they work.
Each model is measured in a process of its own, and noted in benchmarks/results/torch_steps.json as
soon as it is: whoever stops it goes on by the same command. One that fails is told and left out.
PyTorch, relaxjax and the dependency group `torch-models` must be there, and a C++ compiler.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks")]
RESULTS = ROOT / "benchmarks" / "results" / "torch_steps.json"
IMPORTS = RESULTS.with_name("torch_imports.json")
PAGE = ROOT / "docs" / "coming_from_pytorch.md"
BEGIN, END = "<!-- torch_steps.py -->\n", "<!-- end of torch_steps.py -->\n"
POLICIES = {"here": "auto", "balanced": "balanced"}
RATE = 1e-3
PAIRS = [("here", "eager"), ("here", "compiled"), ("balanced", "eager"), ("balanced", "compiled")]
LONGEST = 30 * 60  # seconds for a model: the compiler of PyTorch may find no end
TRIES = 5  # steps with a number of threads, of which the quickest counts
TURN = 0.02  # seconds, or one step if that takes longer
Results = dict[str, Any]


class TorchStep:
    """A step of PyTorch, eager or compiled."""

    def __init__(self, net: Any, inputs: tuple[Any, ...], target: Any, compiles: bool) -> None:
        self._torch: Any = importlib.import_module("torch")
        self.optimizer = self._torch.optim.SGD(net.parameters(), RATE)
        self._net = self._torch.compile(net) if compiles else net
        self._inputs, self._target = inputs, target

    def differentiate(self) -> None:
        self.optimizer.zero_grad()
        found = first(self._net(*self._inputs))
        self._torch.nn.functional.mse_loss(found, self._target).backward()

    def __call__(self) -> None:
        self.differentiate()
        self.optimizer.step()


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


def measured(name: str, rounds: int) -> Results:
    """The times of a model's contestants, and the bytes that each needs beside its arguments."""
    import torch_contestant
    import torch_zoo as zoo
    from timing import in_turns, repeated

    started = time.perf_counter()
    net, inputs = zoo.prepared(name, "float32")
    steps: dict[str, Any] = {}
    taken: dict[str, int | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt2")
        zoo.export(net, inputs, path)
        target = zoo.torch.zeros_like(first(net(*inputs)))
        arrays = [one.numpy() for one in inputs]
        for key, policy in POLICIES.items():
            steps[key], taken[key] = our_step(path, policy, arrays, target.numpy())
    eager = TorchStep(net, inputs, target, compiles=False)
    threads = quickest_threads(eager, torch_contestant.threads())
    zoo.torch.set_num_threads(threads)
    compiled = TorchStep(net, inputs, target, compiles=True)
    for key, step in {"eager": eager, "compiled": compiled}.items():
        step()
        taken[key] = torch_contestant.most_allocated(step.differentiate, step.optimizer)
        steps[key] = step
    turns = {key: repeated(step, TURN) for key, step in steps.items()}
    times = in_turns({key: turn for key, (turn, _) in turns.items()}, rounds)
    seconds = {key: times[key].median() / count for key, (_, count) in turns.items()}
    ratios = {}
    for ours, theirs in PAIRS:
        counts = turns[theirs][1] / turns[ours][1]
        ratios[f"{ours} / {theirs}"] = times[ours].ratio(times[theirs]) * counts
    told = {"threads": threads, "rounds": rounds, "took_s": round(time.perf_counter() - started)}
    return {"seconds": seconds, "ratios": ratios, "bytes": taken, **told}


def quickest_threads(step: TorchStep, cores: int) -> int:
    """With how many threads a step of PyTorch takes least, of one and one on each core."""
    import torch_zoo as zoo
    from timing import seconds

    took = {}
    for threads in {1, cores}:
        zoo.torch.set_num_threads(threads)
        step()
        took[threads] = min(seconds(step)[0] for _ in range(TRIES))
    return min(took, key=lambda threads: took[threads])


def measured_apart(name: str, rounds: int) -> Results:
    """The row of a model, from a process of its own; what it said last where it failed."""
    command = [sys.executable, __file__, "--child", name, "--rounds", str(rounds)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LONGEST, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"it took more than {LONGEST // 60} minutes"}
    if done.returncode != 0:
        return {"failed": (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:300]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def recorded() -> Results:
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {"models": {}}


def measure(names: list[str], listed: list[str], rounds: int) -> int:
    """Measure models one after the other, and note each as soon as it is; how many failed."""
    from surroundings import surroundings

    unknown = sorted(set(names) - set(listed))
    if unknown:
        sys.exit(f"no such model: {', '.join(unknown)}; there are: {', '.join(listed)}")
    results = recorded()
    failed = 0
    for name in names or [one for one in listed if "ratios" not in results["models"].get(one, {})]:
        row = measured_apart(name, rounds)
        failed += "failed" in row
        print(name, json.dumps(row), flush=True)
        results["models"][name] = row
        rows = {one: results["models"][one] for one in listed if one in results["models"]}
        results = {**surroundings(), "models": rows}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return failed


def rows_of(models: Results) -> Iterator[tuple[str, ...]]:
    """What a step takes, and its time and memory as shares of PyTorch's."""
    for name, row in models.items():
        milliseconds = (f"{1e3 * row['seconds'][key]:.1f}" for key in ("eager", "here"))
        figures = (f"{share:.2f}" for share in shares(row))
        yield name, *milliseconds, *figures


def shares(row: Results) -> list[float]:
    """The ratios of the times of each pair, and those of the bytes."""
    times = [row["ratios"][f"{ours} / {theirs}"] for ours, theirs in PAIRS]
    return times + [row["bytes"][ours] / max(1, row["bytes"][theirs]) for ours, theirs in PAIRS]


def section(results: Results) -> str:
    """What stands on the page: where it was measured, each model, and the means."""
    from suite_report import as_table, geometric_mean, measured_on

    models = {name: row for name, row in results["models"].items() if "ratios" in row}
    failed = [name for name, row in results["models"].items() if "failed" in row]
    known = json.loads(IMPORTS.read_text())
    left = [one for one in known if " " not in one and one not in results["models"]]
    without = f" Not measured, because they failed: {', '.join(failed)}." if failed else ""
    without += f" Not measured yet: {', '.join(left)}." if left else ""
    heads = [f"{ours} / {theirs}" for ours, theirs in PAIRS]
    head = ("model", "eager, ms", "here, ms", *heads, *(f"memory, {one}" for one in heads))
    columns = zip(*map(shares, models.values()), strict=True)
    means = ("geometric mean", "", "", *(f"{geometric_mean(list(c)):.2f}" for c in columns))
    return f"""A step of the models above, by SGD and the mean square of the first output, takes
these parts of PyTorch's time and memory, eager and compiled (`python tests/long/torch_steps.py`).
"balanced" is a [policy](memory.md), and memory is what a step needs beside its arguments. Measured
on {measured_on(results)}.{without}

{as_table(head, iter([*rows_of(models), means]))}"""


def page_with(text: str, results: Results) -> str:
    """The page with the section in its place."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section(results)}\n\n{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="the names of some models")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    parser.add_argument("--child", metavar="MODEL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measured(given.child, given.rounds)))
        return 0
    if given.page:
        PAGE.write_text(page_with(PAGE.read_text(), recorded()))
        return 0
    import torch_zoo as zoo

    return measure(given.names, list(zoo.MODELS), given.rounds)


if __name__ == "__main__":
    sys.exit(main())
