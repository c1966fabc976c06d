"""Losses as JAX's libraries write them, by `relaxjax.value_and_grad` instead of JAX's.

    python benchmarks/libraries.py
    python benchmarks/libraries.py --only "nnx: Gemma" "equinox: BERT" --rounds 5
    python benchmarks/libraries.py --page

Each is compiled by JAX, by us by default, and by us with the memory policy `free`, after a small
loss has warmed up the process; the gradients are compared, and all three timed in turns. What comes
out is added to results/libraries.json, from which `--page` writes the table of
docs/performance_tables.md anew. The libraries are the dependency group `libraries`.
"""

import argparse
import functools
import gc
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
from beside_jax import Comparison, Gradient, Ratios, compared, warm_up
from suite_report import RESULTS, TABLES, as_table, geometric_mean, measured_on
from surroundings import surroundings
from timing import table

import relaxjax

RECORDED = RESULTS / "libraries.json"
LONG_STEP = 0.01  # seconds of JAX, below which the clock tells little of a step
BEGIN, END = "<!-- libraries.py -->\n", "<!-- end of libraries.py -->\n"
WAYS: dict[str, Gradient] = {
    "default": relaxjax.value_and_grad,
    "free": functools.partial(relaxjax.value_and_grad, memory_policy="free"),
}
COLUMNS = ("time", "CPU time", "temporary memory", "compile time")
Results = dict[str, Any]


def row(found: Comparison, rounds: int, load: float) -> Results:
    return {
        **{name: ratios._asdict() for name, ratios in found.ratios.items()},
        "seconds": found.seconds,
        "temp_bytes": found.temp_bytes,
        "compile_seconds": found.compile_seconds,
        "rounds": rounds,
        "load": load,
    }


def recorded(path: Path) -> Results:
    return dict(json.loads(path.read_text())) if path.exists() else {"losses": {}}


def measure(names: list[str], rounds: int, path: Path) -> None:
    """Measure losses one after the other, and record each as soon as it is."""
    from library_losses import LOSSES, Draws  # it imports the libraries, which a page does not need

    results = {**recorded(path), **surroundings(), "all": list(LOSSES)}
    unknown = sorted(set(names) - set(LOSSES))
    if unknown:
        raise SystemExit(f"no such loss: {', '.join(unknown)}; there are: {', '.join(LOSSES)}")
    warm_up(WAYS.values())
    for name in names or LOSSES:
        found = compared(LOSSES[name](Draws()), WAYS, rounds)
        results["losses"][name] = row(found, rounds, os.getloadavg()[1])
        results["losses"] = {
            key: results["losses"][key] for key in LOSSES if key in results["losses"]
        }
        path.write_text(json.dumps(results, indent=1) + "\n")
        shown = [(way, *(f"{x:.2f}" for x in ratios)) for way, ratios in found.ratios.items()]
        print(table((name, *COLUMNS), shown), flush=True)
        jax.clear_caches()
        gc.collect()


def means(losses: Mapping[str, Results]) -> Iterator[tuple[str, ...]]:
    """Those of all losses, and of those whose steps are long enough for the clock."""
    long = {name: found for name, found in losses.items() if found["seconds"] >= LONG_STEP}
    of_long = f"geometric mean of steps of {1e3 * LONG_STEP:.0f} ms or more"
    for words, chosen in (("geometric mean", losses), (of_long, long)):
        for way in WAYS if chosen else ():
            columns = ([found[way][key] for found in chosen.values()] for key in Ratios._fields)
            yield f"{words}, {way}", "", *(f"{geometric_mean(c):.2f}" for c in columns)


def rows(losses: Mapping[str, Results]) -> Iterator[tuple[str, ...]]:
    for name, found in losses.items():
        for way in WAYS:
            ratios = (f"{found[way][key]:.2f}" for key in Ratios._fields)
            milliseconds = f"{1e3 * found['seconds']:.0f}"
            yield f"{name}, {way}", milliseconds, *ratios


def section(results: Results) -> str:
    """What stands on the page: where it was measured, and each loss by both ways."""
    losses = results["losses"]
    load, cores = geometric_mean([found["load"] for found in losses.values()]), results["cores"]
    busy = ""
    if load > cores:
        busy = f"""
The machine was busy with other work, a load of {load:.0f} on {cores} cores. That disturbs times,
those of compiling too, and no bytes.
"""
    head = ("loss", "JAX, ms", *COLUMNS)
    missing = "; ".join(name for name in results["all"] if name not in losses)
    without = f"\n\nNot measured yet: {missing}." if missing else ""
    return f"""Measured on {measured_on(results)}.{without}
{busy}
{as_table(head, iter([*rows(losses), *means(losses)]))}"""


def page_with(text: str, results: Results) -> str:
    """The page with the section in its place."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section(results)}\n\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="the names of some losses")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, default=RECORDED)
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    options = parser.parse_args()
    if not options.page:
        measure(options.only, options.rounds, options.json)
        return
    TABLES.write_text(page_with(TABLES.read_text(), recorded(options.json)))


if __name__ == "__main__":
    main()
