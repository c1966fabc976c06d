"""Run passes over a module and print the result.

The file holds a script: a module, or a single function. It is read, never executed. The pipeline
names passes in the order in which they run, with their options in braces:

    relaxjax opt model.py -p "Gradient{func_name=main},DeadCodeElimination"
    relaxjax opt model.py -p FoldConstant -o folded.py
    relaxjax opt model.py -p "LegalizeOps,FuseOps" --print-after-all
    relaxjax opt model.py -p "SimplifyExpr,FuseOps" --diff
    relaxjax opt model.py -p "MyPass{depth=2}" --load my_passes.py

`relaxjax passes` lists the passes; the files of --load are run, and hold others. With --diff, what
each pass changed is printed instead of the result. Whatever is printed besides goes to the standard
error.
"""

import argparse
import sys
from typing import Any

from relaxjax.ir.difference import diff
from relaxjax.ir.highlight import painted
from relaxjax.ir.module import IRModule
from relaxjax.passes import PassContext, PassInfo, parse_pipeline, pass_instrument
from relaxjax.passes.infrastructure.instruments import PassTimingInstrument, PrintAfterAll

from .failure import bad_input
from .files import WHAT_IS_READ, read_module, write_text
from .own import add_load, own_passes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=WHAT_IS_READ)
    parser.add_argument(
        "-p", "--passes", metavar="PIPELINE", default="", help="the passes to run (none)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="the file to write the result to (the standard output)",
    )
    add_load(parser)
    parser.add_argument(
        "--opt-level", metavar="N", type=int, default=2,
        help="leave out passes of a higher level (2)",
    )  # fmt: skip
    parser.add_argument(
        "--disable", metavar="PASS", action="append", default=[],
        help="leave out this pass; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--print-after-all", action="store_true", help="show the module after each pass"
    )
    parser.add_argument(
        "--diff", action="store_true", help="show what each pass changed instead of the result"
    )
    parser.add_argument("--timing", action="store_true", help="show how long each pass took")


def run(args: argparse.Namespace) -> int:
    timing = PassTimingInstrument()
    instruments: list[Any] = [timing] if args.timing else []
    if args.print_after_all:
        instruments.append(PrintAfterAll(file=sys.stderr))
    if args.diff:
        instruments.append(PrintChanges())
    with bad_input():
        pipeline = parse_pipeline(args.passes, own_passes())
        context = PassContext(args.opt_level, None, args.disable, instruments)
        module = read_module(args.file)
    with context:
        text = pipeline(module).script()
    if args.timing:
        print(timing.render(), end="", file=sys.stderr)
    if args.output is not None:
        write_text(args.output, f"{text}\n")
    elif not args.diff:
        text.show()
    return 0


@pass_instrument
class PrintChanges:
    """Prints what each pass of a sequence changed, and of the passes inside of it nothing more."""

    def __init__(self) -> None:
        self._running: list[IRModule] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._running.append(mod)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        before = self._running.pop()
        if len(self._running) == 1:
            _show_change(info.name, before, mod)

    def run_failed_pass(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        self._running.pop()


def _show_change(name: str, before: IRModule, after: IRModule) -> None:
    found = diff(before, after)
    if found:
        print(painted(f"## {name}", "bold"))
        found.show()
        print(flush=True)
    else:
        print(painted(f"## {name}: nothing changed\n", "faint"), flush=True)
