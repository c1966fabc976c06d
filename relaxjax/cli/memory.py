"""Show what a backward program keeps of its forward part, and what it computes again.

The file holds a script. A function of it is differentiated, unless it is an adjoint already, and
its memory is planned by a policy or for a budget:

    relaxjax memory model.py
    relaxjax memory model.py --set n=32 --policy balanced
    relaxjax memory model.py --budget 64MiB --keep y3
    relaxjax memory model.py --budget 60%

The table shows each value with its bytes, the line that computes it, the lines that need it, and
whether it is kept or computed again. Below it stand the values that are live at the peak, and how
many bytes are live while the program runs, before and after. --keep and --recompute overrule the
plan. With --loss, the function is a model, and its loss is the one that `relaxjax train` takes:

    relaxjax memory model.py --loss cross_entropy
"""

import argparse
import json
from typing import Any

from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
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
from relaxjax.passes.memory.ledger import Ledger
from relaxjax.passes.memory.planning import POLICIES
from relaxjax.passes.memory.rematerialize import ledger_of, rematerialized
from relaxjax.training.layout import BACKBONE

from .device import add_device, where_asked
from .failure import InputError, bad_input
from .files import read_module
from .memory_table import ORDERS, report
from .train_setup import LOSSES, Known, with_loss

_LARGEST = 2**31 - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the script to read, - for the standard input")
    parser.add_argument(
        "-f", "--function", metavar="NAME",
        help="the function to differentiate (main; with --loss, backbone or the only function)",
    )  # fmt: skip
    parser.add_argument(
        "--loss", metavar="NAME", type=Known("loss", LOSSES),
        help="the function is a model: differentiate this loss of it",
    )  # fmt: skip
    parser.add_argument(
        "--set", metavar="DIM=SIZE", action="append", default=[],
        help="the size of a symbolic dimension; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--policy", choices=POLICIES,
        help="which values to compute again: none; free, those that cost little more than reading "
        "them; balanced, up to an eighth of the operations; minimal, whatever saves memory (free)",
    )  # fmt: skip
    parser.add_argument(
        "--budget",
        metavar="BYTES",
        help="the bytes that the plan may take, such as 64MiB, or 60%% of what keeping every value "
        "takes; instead of a policy",
    )
    for name, doc in (("keep", "keep this value"), ("recompute", "compute this value again")):
        parser.add_argument(
            f"--{name}", metavar="VALUE", action="append", default=[],
            help=f"{doc}; may be given several times",
        )  # fmt: skip
    parser.add_argument(
        "--sort", choices=ORDERS, default="bytes",
        help="list the largest values first, or in the order of the program (bytes)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    add_device(parser)


@where_asked
def run(args: argparse.Namespace) -> int:
    with bad_input():
        options = _options(args)
        mod, name = read_module(args.file), args.function or "main"
        if args.loss is not None:
            mod, name = with_loss(mod, args.loss, args.function), f"{BACKBONE}_loss_adjoint"
        mod, name = _adjoint(mod, name, _sizes(args.set))
        ledger = ledger_of(mod, name, **options)
    measured = (
        temporary_bytes(mod, name),
        temporary_bytes(rematerialized(mod, name, ledger.plan), name),
    )
    if args.json:
        print(json.dumps(_record(ledger, measured), indent=2))
    else:
        print("\n".join(report(ledger, name, measured, args.sort)))
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
        _check_scalar(name, mod[name])
        mod, name = SimplifyGradient()(Gradient(name)(mod)), f"{name}_adjoint"
    for one in (LegalizeOps(), EliminateCommonSubexpr(), CanonicalizeBindings()):
        mod = one(mod)
    return mod, name


def _check_scalar(name: str, function: Any) -> None:
    """Raise where there is something else to differentiate than a loss."""
    result = function.body.body if isinstance(function, Function) else None
    first = result.fields[0] if isinstance(result, Tuple) and result.fields else result
    if first is not None and not (isinstance(first.ty, TensorType) and first.ty.ndim == 0):
        raise InputError(
            f"`{name}` gives {first.ty}, but a loss is a scalar: name a function that gives one by "
            "-f, or the loss of a model by --loss, such as --loss mse"
        )


def _record(ledger: Ledger, measured: tuple[int, int]) -> dict[str, Any]:
    plans = {"everything kept": ledger.planner.none, "planned": ledger.plan}
    return {
        "values": [
            {
                "name": entry.name,
                "bytes": entry.size,
                "line": None if entry.span is None else entry.span.line,
                "needed_by": list(entry.needed_by),
                "flops": entry.flops,
                "kept": entry.kept,
                "reason": entry.reason,
            }
            for entry in ledger.entries
        ],
        "computed_again": ledger.extra_share,
        "at_peak": {"computed": ledger.peak_at, "bytes": ledger.at_peak},
        "peaks": {
            name: {
                "predicted": plan.size,
                "by_xla": by_xla,
                "timeline": plan.placement.live,
            }
            for (name, plan), by_xla in zip(plans.items(), measured, strict=True)
        },
    }
