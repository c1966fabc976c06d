"""The pages of documentation on the operators: one for each part of the table."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.op import Op
from relaxjax.ops.cost_rules import TRANSCENDENTAL_FLOPS
from relaxjax.ops.declare import FACTS, FUSION, PRECISION

from .operator_rules import facts_text, rules, rules_text, signature, summary

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
