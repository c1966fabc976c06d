"""Write functions of a module in a form that other programs run or read.

The file holds a script: a module, or a single function. It is read, never executed. The forms are

    jax_export  an artifact of jax.export: JAX runs it without relaxjax
    python      a source file of plain JAX that needs no relaxjax
    mlir        the text of a StableHLO module, of one function
    archive     the whole module in one file, to be kept: relaxjax reads it again

    relaxjax export model.py --format python -o plain_model.py
    relaxjax export model.py --format jax_export --platform cpu --platform cuda -o model.jax
    relaxjax export model.py --format mlir --function main
    relaxjax export net.pt2 --format jax_export --inference -o net.jax
"""

import argparse
import sys

from relaxjax.ir.highlight import ScriptText, wants_colours
from relaxjax.ir.module import IRModule
from relaxjax.lowering import export, to_mlir, to_python
from relaxjax.lowering.export import check_vjp_order
from relaxjax.lowering.selection import selected, single
from relaxjax.lowering.target import platform_of
from relaxjax.passes import DecomposeOpsForInference
from relaxjax.script import save_archive
from relaxjax.torch.model import predicting

from .failure import InputError, bad_input
from .files import WHAT_IS_READ, check_archive, is_of_torch, read_module, writable, write_text
from .own import add_load

# The options that each form takes besides the file to write.
FORMS = {
    "jax_export": ("function", "platform", "vjp_order"),
    "python": ("function",),
    "mlir": ("function", "platform"),
    "archive": (),
}
TEXTS = ("python", "mlir")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=WHAT_IS_READ)
    parser.add_argument("--format", choices=list(FORMS), required=True, help="the form to write")
    parser.add_argument(
        "-o", "--output", metavar="OUT",
        help="the file to write (for python and mlir, the standard output)",
    )  # fmt: skip
    parser.add_argument(
        "--function", metavar="NAME", action="append", default=[],
        help="a function to write; may be given several times (all public ones)",
    )  # fmt: skip
    parser.add_argument(
        "--platform", metavar="NAME", action="append", default=[],
        help="the platform that it will run on; may be given several times for jax_export (cpu, "
        "cuda and tpu), and once for mlir",
    )  # fmt: skip
    parser.add_argument(
        "--vjp-order", metavar="N", type=int, default=0,
        help="how often an artifact of jax.export can be differentiated (0)",
    )  # fmt: skip
    parser.add_argument(
        "--inference", action="store_true",
        help="write what predicts: batch norms use their averages, and a model of PyTorch gives no "
        "new states; else batch norms in training mode stay in it",
    )  # fmt: skip
    add_load(parser)


def run(args: argparse.Namespace) -> int:
    with bad_input():
        _check(args)
        module = read_module(args.file)
        if args.inference:
            of_torch = is_of_torch(args.file)
            module = predicting(module) if of_torch else DecomposeOpsForInference()(module)
        if "function" in FORMS[args.format]:
            selected(module, args.function or None)
    if args.format in TEXTS:
        _write(_text(module, args), args.output)
    else:
        with writable(args.output):
            _write_file(module, args)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options that the form has no use for, and names that mean nothing."""
    for option in ("function", "platform", "vjp_order"):
        if getattr(args, option) and option not in FORMS[args.format]:
            flag = f"--{option.replace('_', '-')}"
            raise InputError(f"`{flag}` is not for --format {args.format}")
    if args.output is None and args.format not in TEXTS:
        raise InputError(f"--format {args.format} is no text: give the file to write by -o")
    if args.format == "archive" and args.output is not None:
        check_archive(args.output)
    if args.format == "mlir" and (len(args.function) > 1 or len(args.platform) > 1):
        raise InputError("--format mlir is one function on one platform")
    check_vjp_order("--vjp-order", args.vjp_order)
    for platform in args.platform:
        platform_of(platform)


def _text(module: IRModule, args: argparse.Namespace) -> str:
    if args.format == "python":
        return to_python(module, args.function or None)
    with bad_input():
        (function,) = args.function or [single(module, None)]
    return to_mlir(module, function, *args.platform)


def _write(text: str, output: str | None) -> None:
    if output is not None:
        write_text(output, text)
        return
    coloured = ScriptText(text).ansi() if wants_colours(sys.stdout) else None
    sys.stdout.write(text if coloured is None else coloured)


def _write_file(module: IRModule, args: argparse.Namespace) -> None:
    if args.format == "archive":
        save_archive(module, args.output)
    else:
        platforms = {"platforms": args.platform} if args.platform else {}
        functions = args.function or None
        export(module, args.output, functions, vjp_order=args.vjp_order, **platforms)
