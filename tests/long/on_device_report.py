"""What docs/performance.md says of GPUs and TPUs, out of the results of tests/long/on_device.py."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from checkout import RESULTS, ROOT
from suite_report import as_table, geometric_mean

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- on_device.py -->\n", "<!-- end of on_device.py -->\n"
NOTHING = """Nothing is measured on a GPU or TPU yet: none was at hand. What is tested for them
without one is that every operator and whole models are lowered for them, and in which forms.
`python tests/long/on_device.py` measures all of this where there is one, in half an hour, and
`python tests/long/on_device.py --report` writes it here."""

Results = dict[str, Any]


def recorded() -> list[Results]:
    """The results of each device; what `--quick` left is none."""
    paths = sorted(RESULTS.glob("on_device-*.json"))
    return [json.loads(path.read_text()) for path in paths if not path.stem.endswith("-quick")]


def section(devices: Sequence[Results]) -> str:
    return "\n\n".join(map(of_device, devices)) or NOTHING


def of_device(results: Results) -> str:
    """What was compared, what of it failed, and what a training step takes."""
    stages = results["stages"]
    heading = f"### {results['device']}\n\nJAX {results['jax']}, {results['date']}:"
    return "\n".join([heading, "", *compared(stages), *budgets(stages), *steps(stages)]).rstrip()


def compared(stages: Results) -> Iterator[str]:
    kinds = {
        "operators": "operators give what the CPU gives, and gradients as JAX's",
        "models": "whole models have the loss and the gradients of plain JAX on the CPU",
    }
    for stage, text in kinds.items():
        rows = stages.get(stage, {})
        failed = {name: row["error"] for name, row in rows.items() if "error" in row}
        yield f"* {len(rows) - len(failed)} of {len(rows)} {text}."
        yield from (f"  * {name}: {error}" for name, error in failed.items())


def budgets(stages: Results) -> Iterator[str]:
    rows = stages.get("budgets", {})
    if not rows:
        return
    shares = list(dict.fromkeys(s for row in rows.values() for s in row.get("shares", {})))
    lines = [
        (name, *(_taken(row, share) for share in shares), row.get("error", ""))
        for name, row in rows.items()
    ]
    yield from ("", "What plans for a share of all that is kept else take there, by its compiler:")
    yield from ("", as_table(("model", *shares, "failed"), iter(lines)))


def _taken(row: Results, share: str) -> str:
    taken = row.get("shares", {}).get(share, {}).get("taken")
    return "none" if taken is None else f"{taken:.0%}"


def steps(stages: Results) -> Iterator[str]:
    """Steps against plain JAX, each model by each contestant, and the mean over the models."""
    rows = {n: row.get("contestants", {}) for n, row in stages.get("suite", {}).items()}
    names = [n for n in dict.fromkeys(n for row in rows.values() for n in row) if n != "plain"]
    if not names:
        return
    lines = [
        (model, *(_step(found, name) for name in names), _milliseconds(found))
        for model, found in rows.items()
    ]
    means = (
        geometric_mean([r[name]["step"] for r in rows.values() if name in r]) for name in names
    )
    lines.append(("geometric mean", *(f"{mean:.2f}" for mean in means), ""))
    yield from ("", "Steps, in parts of plain JAX's, and temporary memory behind the stroke:")
    yield from ("", as_table(("model", *names, "ms of plain"), iter(lines)))


def _step(found: Results, name: str) -> str:
    return f"{found[name]['step']:.2f} / {found[name]['temp']:.2f}" if name in found else "failed"


def _milliseconds(found: Results) -> str:
    return f"{1e3 * found['plain']['seconds']:.2f}" if "plain" in found else ""


def page_with(text: str, devices: Sequence[Results]) -> str:
    """The page with the section in its place."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section(devices)}\n\n{end}{after}"


def write_page() -> None:
    PAGE.write_text(page_with(PAGE.read_text(), recorded()))
