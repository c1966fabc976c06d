"""The means and the plot of docs/performance.md, out of the newest results of benchmarks/suite.py.

python benchmarks/suite_report.py

It writes each variant of each model, too, into docs/performance_tables.md.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from models import MODELS
from suite_plot import Results, plot

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE, PLOT = ROOT / "docs" / "performance.md", ROOT / "docs" / "suite.svg"
TABLES = ROOT / "docs" / "performance_tables.md"
BEGIN, END = "<!-- suite_report.py -->\n", "<!-- end -->\n"

OURS, UNOPTIMISED, TORCH = "ours", "unoptimised", ("torch", "torch, compiled")
SHOWN = {
    "step": "step",
    "compile": "compile",
    "temp": "temporary memory",
    "peak": "peak memory",
    "host": "dispatch",
}
COLUMNS = tuple(SHOWN.values())
HEAD = ("model", "variant", "step", "quartiles", "ms", *COLUMNS[1:])


def recorded() -> list[Results]:
    """The results of the days on which the whole suite ran, those of the last day first."""
    days = sorted(RESULTS.glob("????-??-??.json"), reverse=True)
    return [json.loads(day.read_text()) for day in days]


def section(results: Results, earlier: Sequence[Results] = ()) -> str:
    """What stands on the page of results: where it was measured, the plot, and means."""
    missing = "; ".join(name for name in MODELS if name not in results["models"])
    without = f"; not measured then: {missing}" if missing else ""
    return f"""Measured on {measured_on(results)}{without}.

![Ratios of each model](suite.svg)

Geometric means of the ratios, over the models that a variant trained:

{as_table(("variant", "models", *COLUMNS), means(results))}
{against_torch(results)}{elsewhere(earlier)}{against_unoptimised(results)}"""


def each_model(results: Results) -> str:
    """What stands on the page of tables: each contestant on each model."""
    return f"""Measured on {measured_on(results)}.

{as_table(HEAD, rows(results))}
"""


def means(results: Results) -> Iterator[tuple[str, ...]]:
    models = results["models"].values()
    for name in dict.fromkeys(name for model in models for name in model):
        found = [model[name] for model in models if name in model]
        ratios = (geometric_mean([row[key] for row in found]) for key in SHOWN)
        yield name, str(len(found)), *(f"{ratio:.2f}" for ratio in ratios)


def measured_on(results: Results) -> str:
    packages = [f"{name} {results[name]}" for name in ("jax", "torch") if name in results]
    versions = ", ".join([f"Python {results['python']}", *packages])
    return f"{results['processor']}, {results['cores']} cores, {versions}, {results['date']}"


def elsewhere(earlier: Sequence[Results]) -> str:
    """What `ours` took where, or when, it was measured before."""
    head = ("`ours` before, and on other machines", "models", *COLUMNS, "step over PyTorch's")
    lines = []
    for results in earlier:
        ratios = list(parts_of_torch(results).values())
        of_torch = f"{geometric_mean(ratios):.2f}" if ratios else "-"
        lines += [
            (measured_on(results), *row, of_torch) for name, *row in means(results) if name == OURS
        ]
    return f"\n{as_table(head, iter(lines))}\n" if lines else ""


def parts_of_torch(results: Results) -> dict[str, float]:
    """What part our step takes of PyTorch's, by whichever of its contestants is quicker."""
    ratios = {}
    for model, found in results["models"].items():
        theirs = [found[name]["step"] for name in TORCH if name in found]
        if theirs and OURS in found:
            ratios[model] = found[OURS]["step"] / min(theirs)
    return ratios


def against_torch(results: Results) -> str:
    """The mean of that over the models, and where it is above 1; or nothing."""
    ratios = parts_of_torch(results)
    if not ratios:
        return ""
    slower = sorted((ratio, model) for model, ratio in ratios.items() if ratio > 1)
    named = ", ".join(f"{model} ({ratio:.2f})" for ratio, model in reversed(slower)) or "none"
    mean = f"{geometric_mean(list(ratios.values())):.2f}"
    return f"""
Our steps take {mean} of the time of PyTorch's, eager or compiled, whichever is faster. This is the
geometric mean over {len(ratios)} models. PyTorch is faster on: {named}.
"""


def against_unoptimised(results: Results) -> str:
    """How much more throughput and memory ResNet-50 has than by unoptimised derivatives."""
    lines = [
        (
            model,
            name,
            f"{found[UNOPTIMISED]['step'] / found[name]['step'] - 1:+.0%}",
            f"{found[name]['peak'] / found[UNOPTIMISED]['peak'] - 1:+.0%}",
        )
        for model, found in results["models"].items()
        for name in (OURS, "free", "balanced")
        if model.startswith("ResNet-50") and {UNOPTIMISED, name} <= set(found)
    ]
    if not lines:
        return ""
    head = ("model", "variant", "throughput", "peak memory")
    return f"\nAgainst `{UNOPTIMISED}`:\n\n{as_table(head, iter(lines))}\n"


def geometric_mean(ratios: list[float]) -> float:
    """A program without temporary bytes counts as one with a hundredth of the other's."""
    return math.exp(sum(math.log(max(ratio, 0.01)) for ratio in ratios) / len(ratios))


def rows(results: Results) -> Iterator[tuple[str, ...]]:
    for model, found in results["models"].items():
        for name, row in found.items():
            low, high = row["quartiles"]
            step = (f"{row['step']:.2f}", f"{low:.2f}-{high:.2f}", f"{1e3 * row['seconds']:.1f}")
            yield model, name, *step, *(f"{row[key]:.2f}" for key in SHOWN if key != "step")


def as_table(head: tuple[str, ...], lines: Iterator[tuple[str, ...]]) -> str:
    rule = ("---", *("---:" for _ in head[1:]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


def page_with(text: str, written: str) -> str:
    """A page with what is written in its place."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{written}\n{end}{after}"


def main() -> None:
    results, *earlier = recorded()
    PAGE.write_text(page_with(PAGE.read_text(), section(results, earlier)))
    TABLES.write_text(page_with(TABLES.read_text(), each_model(results)))
    PLOT.write_text(plot(results))


if __name__ == "__main__":
    main()
