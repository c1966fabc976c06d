"""Write a page that shows a program, its passes, its costs and its memory.

The page is one file, which opens in any browser without a network. Its columns join each line of
the source with its forward and its backward program; other views show what each pass changed, what
is alive in memory at each moment, and which lines cost most:

    relaxjax explore model.py -o report.html
    relaxjax explore model.py --loss cross_entropy --set n=32
    relaxjax explore model.py --budget 60%

A loss written in JAX stands behind the name of its file, and the command runs that file. --args
holds the arguments of the loss, in Python, with the names of the file:

    relaxjax explore train.py:loss --args "params, batch" -o report.html

A trainer's checkpoint is shown as well. --json prints what the page shows as JSON instead.
"""

import argparse
import json
from pathlib import Path

from relaxjax.explorer import Explorer, explore
from relaxjax.passes.memory.planning import POLICIES
from relaxjax.trainable.names import BACKBONE

from .device import add_device, where_asked
from .failure import bad_input
from .files import WHAT_IS_READ, read_module, writable
from .jax_loss import add_jax_loss, is_jax_loss, refuse_jax_options, step_and_arguments
from .sizes import add_sizes, with_sizes
from .train_setup import LOSSES, Known, with_loss


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE",
        help=f"{WHAT_IS_READ}; or FILE.py:LOSS for a loss in JAX",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="OUT", default="report.html",
        help="the file to write the page to (report.html)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print a JSON object, and no page")
    parser.add_argument(
        "-f", "--function", metavar="NAME",
        help="the function to differentiate, or an adjoint (main; with --loss, backbone)",
    )  # fmt: skip
    parser.add_argument(
        "--loss", metavar="NAME", type=Known("loss", LOSSES),
        help="the function is a model: differentiate this loss of it",
    )  # fmt: skip
    add_sizes(parser)
    parser.add_argument("--policy", choices=POLICIES, help="which values to compute again (free)")
    parser.add_argument(
        "--budget",
        metavar="BYTES",
        help="the bytes that the adjoint may take, such as 64MiB, or 60%%; instead of a policy",
    )
    add_jax_loss(parser)
    add_device(parser)


@where_asked
def run(args: argparse.Namespace) -> int:
    with bad_input():
        found = _of_jax_loss(args) if is_jax_loss(args.file) else _of_script(args)
    if args.json:
        print(json.dumps(found.to_json()))
        return 0
    with writable(args.output):
        found.save(args.output)
    print(
        f"{args.output}: {Path(args.output).stat().st_size // 1024} KiB, to be opened in a browser"
    )
    return 0


def _of_jax_loss(args: argparse.Namespace) -> Explorer:
    step, given = step_and_arguments(args, ("function", "loss", "set"))
    return explore(step, *given, title=Path(args.file).name)


def _of_script(args: argparse.Namespace) -> Explorer:
    refuse_jax_options(args, ("args", "has_aux"))
    mod, function = read_module(args.file), args.function
    if args.loss is not None:
        mod, function = with_loss(mod, args.loss, function), f"{BACKBONE}_loss_adjoint"
    policy = args.policy or (None if args.budget else "free")
    return explore(
        with_sizes(mod, args.set),
        function=function,
        budget=args.budget,
        policy=policy,
        title=Path(args.file).name,
    )
