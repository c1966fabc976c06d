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

The file may be one that a trainer saved: it shows the training step as it was planned there,
unless an option asks for another plan:

    relaxjax memory run/model.safetensors

A loss written in JAX stands behind the name of its file, and the command runs that file. --args
holds the arguments of the loss, in Python, with the names of the file. --jax prints how much
memory JAX's own gradients need:

    relaxjax memory train.py:loss --args "params, batch" --policy free --jax
"""

import argparse
import json
from typing import Any

from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.walk import type_symbols
from relaxjax.ir.wording import listed
from relaxjax.passes import (
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    SimplifyGradient,
)
from relaxjax.passes.memory.report.memory_report import ORDERS, MemoryReport, memory
from relaxjax.passes.training.plan_step_memory import memory_of_step
from relaxjax.trainable.names import BACKBONE, TRAIN_STEP

from .adjoint_options import add_adjoint, with_sizes
from .device import where_asked
from .failure import InputError, bad_input
from .files import read_module
from .jax_loss import is_jax_loss, refuse_jax_options, report_of_jax_loss
from .own import add_load
from .train_setup import with_loss


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_adjoint(parser)
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
    add_load(parser)
    parser.add_argument(
        "--jax", action="store_true", help="tell what JAX's own gradients of it take, too"
    )


@where_asked
def run(args: argparse.Namespace) -> int:
    with bad_input():
        report = report_of_jax_loss(args) if is_jax_loss(args.file) else _report(args)
    if args.json:
        print(json.dumps(report.to_json(), indent=2))
        return 0
    report.show(args.sort)
    if args.jax:
        print(f"\n{report.compared_with_jax()}")
    return 0


def _report(args: argparse.Namespace) -> MemoryReport:
    """Of a function of a script."""
    refuse_jax_options(args, ("args", "has_aux", "jax"))
    mod, name = read_module(args.file), args.function or "main"
    asked = (args.function, args.loss, args.policy, args.budget, args.set)
    if TRAIN_STEP in mod and not any((*asked, args.keep, args.recompute)):
        return memory_of_step(mod)
    if args.loss is not None:
        mod, name = with_loss(mod, args.loss, args.function), f"{BACKBONE}_loss_adjoint"
    if name not in mod and args.function is None and BACKBONE in mod:
        raise InputError(
            f"the module has no function `{name}`, but a model, `{BACKBONE}`: say by --loss which "
            "loss of it, such as --loss mse"
        )
    mod, name = _adjoint(with_sizes(mod, args.set), name)
    policy = args.policy or (None if args.budget else "free")
    return memory(
        mod,
        name,
        budget=args.budget,
        policy=policy,
        must_keep=args.keep,
        must_recompute=args.recompute,
    )


def _adjoint(mod: IRModule, name: str) -> tuple[IRModule, str]:
    """The module with the adjoint as it is compiled, and the name of that."""
    unknown = sorted({symbol.name for p in mod[name].params for symbol in type_symbols(p.ty)})
    if unknown:
        known = "size of {} is" if len(unknown) == 1 else "sizes of {} are"
        settings = " ".join(f"--set {name}=32" for name in unknown)
        raise InputError(f"the {known.format(listed(unknown))} not known: write {settings}")
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
    if first is not None and known_ndim(first) != 0:
        raise InputError(
            f"`{name}` gives {first.ty}, but a loss is a scalar: name a function that gives one by "
            "-f, or the loss of a model by --loss, such as --loss mse"
        )
