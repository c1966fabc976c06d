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
`python tests/long/on_device.py` measures all of this where there is one, in an hour, and
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
    parts = (compared, attention, budgets, steps, long_sequences, tables, updates, offloaded)
    return "\n".join([heading, "", *(line for part in parts for line in part(stages))]).rstrip()


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


def attention(stages: Results) -> Iterator[str]:
    """What cuDNN computes of attention in half precision, and how right that is."""
    rows = stages.get("attention", {})
    if not rows:
        return
    failed = {name: row["error"] for name, row in rows.items() if "error" in row}
    found = [row for row in rows.values() if row.get("by_cudnn")]
    again = sum(row["same_again"] for row in found)
    worst = max((row["apart"] for row in found), default=0.0)
    yield (
        f"* cuDNN computes attention in {len(found)} of {len(rows)} sizes in half precision, at "
        f"most {worst:.1f} roundings from float32; {again} of them give the same bits again."
    )
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


def long_sequences(stages: Results) -> Iterator[str]:
    """Attention and losses: forward, and with the adjoints."""
    rows = stages.get("long", {})
    if not rows:
        return
    both = "forward", "both"
    lines = [
        (name, *(_direction(row.get("directions", {}).get(way)) for way in both), *_failed(row))
        for name, row in rows.items()
    ]
    head = ("case", "forward", "with adjoints", "failed")
    yield from ("", "Long attention and many words, in parts of plain JAX's, and MiB of each:")
    yield from ("", as_table(head, iter(lines)))


def _direction(row: Results | None) -> str:
    if row is None:
        return ""
    ours, plain = (count / 2**20 for count in row["temp"])
    return f"{row['ratio'][1]:.2f}, {ours:.0f} for {plain:.0f}"


def _failed(row: Results) -> tuple[str]:
    return (row.get("error", ""),)


def tables(stages: Results) -> Iterator[str]:
    """Steps by the rows of tables, each way beside plain JAX."""
    rows = stages.get("tables", {})
    if not rows:
        return
    keys = ("ms", "ratio", "temp MiB", "ratio of temp")
    lines = [
        (f"{name}: {way}", *(found[key] for key in keys), "")
        for name, row in rows.items()
        for way, found in row.get("rows", {}).items()
    ]
    lines += [
        (name, *[""] * len(keys), row["error"]) for name, row in rows.items() if "error" in row
    ]
    yield from ("", "Steps by the rows of large tables:")
    yield from ("", as_table(("step", *keys, "failed"), iter(lines)))


def updates(stages: Results) -> Iterator[str]:
    """The tables of updates as they were printed."""
    for name, row in stages.get("updates", {}).items():
        yield from ("", f"The update of {name}:")
        for text in row.get("tables", [row.get("error", "")]):
            yield from ("", "```text", text, "```")


def offloaded(stages: Results) -> Iterator[str]:
    """Steps whose residuals wait on the host, beside the same that keep them."""
    rows = stages.get("offload", {})
    if not rows:
        return
    lines = [(name, *_offloaded(row), *_failed(row)) for name, row in rows.items()]
    head = ("model", "step", "temporary MiB", "failed")
    yield from ("", "Residuals on the host, beside those that are kept:")
    yield from ("", as_table(head, iter(lines)))


def _offloaded(row: Results) -> tuple[str, str]:
    if "offload" not in row:
        return "", ""
    kept, there = row["ours"], row["offload"]
    sizes = " for ".join(f"{one['temp_bytes'] / 2**20:.0f}" for one in (there, kept))
    return f"{there['seconds'] / kept['seconds']:.2f}", sizes


def page_with(text: str, devices: Sequence[Results]) -> str:
    """The page with the section in its place."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section(devices)}\n\n{end}{after}"


def write_page() -> None:
    PAGE.write_text(page_with(PAGE.read_text(), recorded()))
