"""Show what a backward program keeps of its forward part, and what it computes again.

The file holds a script. A function of it is differentiated, unless it is an adjoint already, and
its memory is planned by a policy or for a budget:

    relaxjax memory model.py
    relaxjax memory model.py --set n=32 --policy balanced
    relaxjax memory model.py --budget 64MiB --keep y3
    relaxjax memory model.py --budget 60%

Each value is shown with its bytes, the line that computes it, what needs it, and what becomes of
it. Below stand the bytes that are live while the program runs, before and after. A decision is
turned by --keep and --recompute.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.ir.walk import type_symbols
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes import (
    BindSymbolicVars,
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    SimplifyGradient,
)
from relaxjax.passes.memory.ledger import Entry, Ledger
from relaxjax.passes.memory.planning import POLICIES
from relaxjax.passes.memory.rematerialize import ledger_of, rematerialized

from .failure import InputError, bad_input
from .files import read_module

_LEVELS = " ▁▂▃▄▅▆▇█"
_WIDTH = 72
_LARGEST = 2**31 - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the script to read, - for the standard input")
    parser.add_argument(
        "-f", "--function", metavar="NAME", default="main", help="what to differentiate (main)"
    )
    parser.add_argument(
        "--set", metavar="DIM=SIZE", action="append", default=[],
        help="the size of a symbolic dimension; may be given several times",
    )  # fmt: skip
    parser.add_argument("--policy", choices=POLICIES, help='what to compute again ("free")')
    parser.add_argument(
        "--budget",
        metavar="BYTES",
        help="such as 64MiB, or 60%% of what keeping everything takes: instead of a policy",
    )
    for name, doc in (("keep", "keep a value"), ("recompute", "compute a value again")):
        parser.add_argument(
            f"--{name}", metavar="VALUE", action="append", default=[],
            help=f"{doc}; may be given several times",
        )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(args: argparse.Namespace) -> int:
    with bad_input():
        options = _options(args)
        mod, name = _adjoint(read_module(args.file), args.function, _sizes(args.set))
        ledger = ledger_of(mod, name, **options)
    measured = (
        temporary_bytes(mod, name),
        temporary_bytes(rematerialized(mod, name, ledger.plan), name),
    )
    if args.json:
        print(json.dumps(_record(ledger, measured), indent=2))
    else:
        print("\n".join(_report(ledger, name, measured)))
    return 0


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of Rematerialize."""
    return {
        "budget_bytes": args.budget,
        "policy": args.policy,
        "must_keep": args.keep,
        "must_recompute": args.recompute,
    }


def _sizes(settings: list[str]) -> dict[str, int]:
    pairs = [setting.partition("=") for setting in settings]
    for setting, (_, _, size) in zip(settings, pairs, strict=True):
        if not size.isdecimal():
            raise InputError(f'`--set {setting}` gives no size: write "--set n=32"')
        if int(size) > _LARGEST:
            raise InputError(
                f"`--set {setting}` gives a size beyond {_LARGEST:,}, the largest that JAX counts "
                "in 32 bits: give a smaller one"
            )
    return {name: int(size) for name, _, size in pairs}


def _adjoint(mod: IRModule, name: str, sizes: dict[str, int]) -> tuple[IRModule, str]:
    """The module with the adjoint as it is compiled, and the name of that."""
    if sizes:
        mod = BindSymbolicVars(sizes)(mod)
    unknown = sorted({symbol.name for p in mod[name].params for symbol in type_symbols(p.ty)})
    if unknown:
        listed = ", ".join(f"`{symbol}`" for symbol in unknown)
        raise InputError(f"the size of {listed} is not known: write --set {unknown[0]}=32")
    if not name.endswith("_adjoint"):
        mod, name = SimplifyGradient()(Gradient(name)(mod)), f"{name}_adjoint"
    for one in (LegalizeOps(), EliminateCommonSubexpr(), CanonicalizeBindings()):
        mod = one(mod)
    return mod, name


def _report(ledger: Ledger, name: str, measured: tuple[int, int]) -> list[str]:
    before, after = ledger.planner.none, ledger.plan
    rows = [("value", "bytes", "line", "needed by", "what becomes of it")]
    rows += [_row(entry) for entry in ledger.entries]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    head = (
        f"{name}: at most {_size(before.peak)} are live if everything is kept, "
        f"{_size(after.peak)} as planned, {ledger.extra_share:.1%} computed again"
    )
    return [
        head,
        f"by XLA's count {_size(measured[0])} and {_size(measured[1])}",
        "",
        *("  ".join([*map(str.ljust, row, widths), row[4]]).rstrip() for row in rows),
        "",
        f"live before  {_plot(before.placement.live, before.peak)}",
        f"live after   {_plot(after.placement.live, before.peak)}",
    ]


def _row(entry: Entry) -> tuple[str, str, str, str, str]:
    place = "" if entry.span is None else f"{Path(entry.span.file).name}:{entry.span.line}"
    first, *others = entry.needed_by or ("",)
    needed = f"{first} and {len(others)} more" if others else first
    decision = f"kept: {entry.reason}" if entry.kept else entry.reason
    return entry.name, _size(entry.size), place, needed, decision


def _size(count: int) -> str:
    """Bytes as a person reads them."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def _plot(sizes: Sequence[int], most: int) -> str:
    """A line of bars, each the most of its stretch."""
    count = min(_WIDTH, len(sizes))
    places = [len(sizes) * i // count for i in range(count + 1)]
    peaks = [max(sizes[a:b]) for a, b in pairwise(places)]
    return "".join(_LEVELS[-(-peak * (len(_LEVELS) - 1) // max(most, 1))] for peak in peaks)


def _record(ledger: Ledger, measured: tuple[int, int]) -> dict[str, Any]:
    plans = {"everything kept": ledger.planner.none, "planned": ledger.plan}
    return {
        "values": [
            {
                "name": entry.name,
                "bytes": entry.size,
                "line": None if entry.span is None else entry.span.line,
                "needed_by": list(entry.needed_by),
                "kept": entry.kept,
                "reason": entry.reason,
            }
            for entry in ledger.entries
        ],
        "computed_again": ledger.extra_share,
        "peaks": {
            name: {
                "predicted": plan.size,
                "by_xla": by_xla,
                "timeline": plan.placement.live,
            }
            for (name, plan), by_xla in zip(plans.items(), measured, strict=True)
        },
    }
