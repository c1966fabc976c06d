"""List the operators: how each is called, and which rules it has.

The rules are what passes ask an operator for: its lowering to JAX, its gradient ("zero" where the
derivative is zero wherever it exists), its tangent, its training form, what a layout means to it,
and so on.

    relaxjax ops
    relaxjax ops "relax.nn.*" "*conv*"
    relaxjax ops "lax.*" --json
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax.ir.highlight import painted
from relaxjax.ir.op import OPS, Op
from relaxjax.ops.cost_rules import TRANSCENDENTAL_FLOPS
from relaxjax.ops.declare import FACTS, FUSION, PRECISION

from .operator_rules import facts_text, record, rules, rules_text, signature, summary
from .patterns import add_listing, matching


def add_arguments(parser: argparse.ArgumentParser) -> None:
    form = add_listing(parser, "operators", "relax.*")
    form.add_argument(
        "--markdown", metavar="FOLDER", help="write pages of documentation into this folder"
    )


def run(args: argparse.Namespace) -> int:
    named = {name for pattern in args.patterns for name in matching("operator", pattern, OPS)}
    found = [OPS[name] for name in sorted(named)]
    if args.json:
        print(json.dumps([record(op) for op in found], indent=2))
        return 0
    if args.markdown:
        return _write(Path(args.markdown), pages(found))
    for op in found:
        print(painted(signature(op), "bold"))
        print(f"    {summary(op)}")
        print(f"    {rules_text(op)}")
        if op.cost is not None:
            print(f"    cost: {rules(op)['cost']}")
        if op.facts:
            print(f"    facts: {facts_text(op)}")
    counted = sum(op.gradient is not None for op in found)
    print(f"{len(found)} operators, {counted} of them with a gradient rule")
    return 0


def _write(folder: Path, texts: dict[str, str]) -> int:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0


_PARTS = {
    "relax": "Tensors, numbers and shapes",
    "relax.nn": "Layers of neural networks",
    "relax.grad": "Backward programs",
    "relax.image": "Images",
    "relax.vision": "Detection",
    "relax.random": "Random numbers",
    "relax.memory": "The memory of host and device",
    "relax.inspect": "What tensors say of themselves",
    "relax.dist": "Values on a mesh of devices",
    "relax.ccl": "What devices tell each other",
    "relax.builtin": "Marks that passes read",
}

_HEAD = f"""\
# The operators

`relaxjax ops --markdown docs` writes these pages from the table. In a script, `relax.add` is
`R.add`. The dialect `lax`, `L` in a script, has an operator for each primitive of JAX, with the
same name and parameters: `relaxjax ops "lax.*"` lists them.

Each operator says of itself:

* lower: it becomes JAX.
* gradient: it has an adjoint; "zero" where the derivative is zero wherever it exists.
* jvp: its tangent has a rule of its own, or follows from the gradient rule, or is JAX's derivative
  of the lowering.
* training_form, decompose: it is spelt out before differentiation, or for inference.
* layout: what a rearrangement of axes means to it.
* precision: what becomes of it where a program computes in 16 bits.
* fusion: how it can be computed together with its neighbours.
* cost: flops, where a function such as exp counts {TRANSCENDENTAL_FLOPS}; and bytes, if these are
  not all arguments and results once each.
* facts: what passes may rely on.

Of TVM's operators those are left out that have no meaning above XLA: calls of TensorIR functions,
and of functions that write into their arguments (`call_tir`, `call_dps_packed`); and memory, the
virtual machine and what is built into it (`memory.*`, `vm.*`, `builtin.*`).
"""


def pages(operators: Sequence[Op]) -> dict[str, str]:
    """The text of each page by its file."""
    parts: dict[str, list[Op]] = {name: [] for name in _PARTS}
    for op in sorted(operators, key=lambda op: op.name):
        parts.setdefault(op.name.rpartition(".")[0], []).append(op)
    parts = {name: found for name, found in parts.items() if found}
    return {
        "operators.md": _index(parts),
        **{f"operators/{name}.md": _page(name, found) for name, found in parts.items()},
    }


def _index(parts: dict[str, list[Op]]) -> str:
    rows = [
        f"| [{name}](operators/{name}.md) | {_title(name)} | {len(found)} | {_count(found)} |"
        for name, found in parts.items()
    ]
    table = ["| part | what is in it | operators | with a gradient |", "|---|---|---|---|", *rows]
    words = {"precision": PRECISION, "fusion": FUSION, "facts": FACTS}
    return "\n".join([_HEAD, *table, "", *(_vocabulary(*item) for item in words.items())])


def _vocabulary(rule: str, words: Mapping[str, str]) -> str:
    listed = "\n".join(f"* {word}: {meaning}" for word, meaning in words.items())
    return f"## The words of {rule}\n\n{listed}\n"


def _page(name: str, operators: Sequence[Op]) -> str:
    rows = [f"| [{op.name}](#{_anchor(op)}) | {_cell(summary(op))} |" for op in operators]
    head = [f"# {_title(name)}", "", "| operator | |", "|---|---|", *rows, ""]
    return "\n".join([*head, *map(_section, operators)])


def _section(op: Op) -> str:
    notes = [rules_text(op)]
    cost = rules(op)["cost"]
    if cost is not None:
        notes.append(f"cost: {cost}")
    if op.facts:
        notes.append(f"facts: {facts_text(op)}")
    listed = "\n".join(f"* {note}" for note in notes)
    return f"## {op.name}\n\n`{signature(op)}`\n\n{op.doc}\n\n{listed}\n"


def _title(part: str) -> str:
    return _PARTS.get(part, part)


def _count(operators: Sequence[Op]) -> int:
    return sum(op.gradient is not None for op in operators)


def _anchor(op: Op) -> str:
    """The place that readers of Markdown give a heading."""
    return op.name.lower().replace(".", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
