"""How long the kernels of a compiled program take, by JAX's profiler, and what is in each."""

import gzip
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import jax

from .compiled_text import Instruction, computations_of, place_of

LONG_ENOUGH = 0.5  # seconds that the runs which are measured take together, if so many are allowed
MOST_RUNS = 20
# What runs other instructions, each of which has a time of its own.
_CONTROL = ("while", "conditional", "call", "async-start")


@dataclass(frozen=True, slots=True)
class Kernel:
    """What XLA made one piece of.

    `milliseconds` are of all that a run of the program does of it, `times` how often that is.
    `places` are those of the program that are computed in it, as scopes name them.
    """

    name: str
    milliseconds: float
    times: float
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """The kernels of a program in the middle of several runs, the longest first.

    `milliseconds` is what a whole run takes on the clock: several kernels may run at once, and
    none may while the program waits.
    """

    device: str
    kernels: tuple[Kernel, ...]
    milliseconds: float
    runs: int


def profiled(program: Callable[..., Any], *args: Any) -> Profile:
    """Compile a program of arrays, run it several times, and tell what takes how long."""
    compiled = jax.jit(program).lower(*args).compile()
    times, events = _runs(lambda: jax.block_until_ready(compiled(*args)))
    computations, _ = computations_of(compiled.as_text() or "")
    kernels = _kernels(computations, events, len(times))
    (device, *_) = jax.tree.leaves(compiled(*args))[0].devices()
    return Profile(device.device_kind, tuple(kernels), median(times) * 1e3, len(times))


def _runs(run: Callable[[], Any]) -> tuple[list[float], Mapping[str, list[float]]]:
    """The seconds of each run, and the milliseconds of all events of each instruction."""
    run()  # what is set up once is no part of a step
    count = max(1, min(MOST_RUNS, int(LONG_ENOUGH / max(_seconds(run), 1e-6))))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            times = [_seconds(run) for _ in range(count)]
        return times, _events(Path(folder))


def _seconds(run: Callable[[], Any]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def _events(folder: Path) -> Mapping[str, list[float]]:
    """The milliseconds of the events of each instruction, of the traces in a folder."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for path in folder.rglob("*.trace.json.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        for event in events:
            name = event.get("args", {}).get("hlo_op")
            if name is not None and "dur" in event:
                found[name].append(event["dur"] / 1e3)
    return found


def _kernels(
    computations: Mapping[str, Sequence[Instruction]],
    events: Mapping[str, Sequence[float]],
    runs: int,
) -> list[Kernel]:
    known = {one.name: one for instructions in computations.values() for one in instructions}
    found = []
    for name, spent in events.items():
        inside = list(_inside(known[name], computations)) if name in known else []
        is_shell = name in known and known[name].opcode in _CONTROL
        if is_shell and any(one.name in events for one in inside[1:]):
            continue
        places = dict.fromkeys(place for one in inside if (place := place_of(one.text)))
        times = len(spent) / runs
        found.append(Kernel(name, median(spent) * times, times, tuple(places)))
    return sorted(found, key=lambda kernel: -kernel.milliseconds)


def _inside(
    instruction: Instruction, computations: Mapping[str, Sequence[Instruction]]
) -> Iterator[Instruction]:
    """An instruction, and all that it runs."""
    yield instruction
    for _, called in instruction.calls:
        for one in computations.get(called, ()):
            yield from _inside(one, computations)
