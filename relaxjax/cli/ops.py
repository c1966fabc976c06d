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
from pathlib import Path

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax.ir.highlight import painted
from relaxjax.ir.op import OPS

from .operator_pages import pages
from .operator_rules import facts_text, record, rules, rules_text, signature, summary
from .patterns import matching


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "patterns",
        metavar="PATTERN",
        nargs="*",
        default=["relax.*"],
        help='list only the operators whose names match one of these ("relax.*")',
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list")
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
