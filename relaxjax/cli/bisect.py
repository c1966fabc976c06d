"""Find the pass of a pipeline that breaks a check.

The check is a Python file that is run with `module` set to the module as a pass left it, and fails
by raising an exception, such as that of an `assert`, or by `sys.exit(1)`. It must pass on the
module as it was read:

    relaxjax bisect model.py -p "Gradient{func_name=main},SimplifyGradient" --check check.py

The pass is found by halving, so few of the modules are checked. A pass that raises an exception
itself counts as one that breaks the check. The exit code is 1 where a pass was found, else 0.
"""

import argparse
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path

from relaxjax.ir.highlight import painted
from relaxjax.ir.module import IRModule
from relaxjax.passes import Pass, PassContext, parse_pipeline, pipeline_text, standard_pipeline

from .device import add_device, where_asked
from .failure import InputError, bad_input
from .files import WHAT_IS_READ, read_module
from .own import add_load, own_passes

Check = Callable[[IRModule], Exception | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=WHAT_IS_READ)
    parser.add_argument(
        "--check",
        metavar="CHECK",
        required=True,
        help="the Python file that raises an exception where a module is bad",
    )
    parser.add_argument(
        "-p", "--passes", metavar="PIPELINE",
        help="the passes to run (the standard pipeline of the opt level)",
    )  # fmt: skip
    parser.add_argument(
        "--opt-level", metavar="N", type=int, default=4,
        help="leave out passes of a higher level (4)",
    )  # fmt: skip
    add_load(parser)
    add_device(parser)


@where_asked
def run(args: argparse.Namespace) -> int:
    with bad_input():
        standard = standard_pipeline(args.opt_level)
        given = standard
        if args.passes is not None:
            given = parse_pipeline(args.passes, own_passes())
        context = PassContext(args.opt_level)
        passes = [item for item in given.passes if context.pass_enabled(item.info)]
        module = read_module(args.file)
        if not Path(args.check).is_file():
            raise InputError(f"there is no file {args.check}")
    with context:
        found = first_bad(passes, module, lambda mod: _failure(args.check, mod))
    if found is None:
        print(painted(f"the check passes after all {len(passes)} passes", "green"))
        return 0
    count, error = found
    if count == 0:
        raise InputError(f"the check fails before any pass: {_said(error)}")
    name = painted(pipeline_text(passes[count - 1]), "red")
    print(f"pass {count} of {len(passes)} breaks the check: {name}")
    print(f"    {_said(error)}")
    return 1


def first_bad(
    passes: Sequence[Pass], module: IRModule, check: Check
) -> tuple[int, Exception] | None:
    """How many passes it takes until the check fails, and how; None where it never does."""
    modules, failed = _modules(passes, module)
    error = check(module)
    if error is not None:
        return 0, error
    last = failed if failed is not None else check(modules[-1])
    if last is None:
        return None
    good, bad = 0, len(modules) - 1 if failed is None else len(modules)
    while bad - good > 1:
        middle = (good + bad) // 2
        error = check(modules[middle])
        if error is None:
            good = middle
        else:
            bad, last = middle, error
    return bad, last


def _modules(passes: Sequence[Pass], module: IRModule) -> tuple[list[IRModule], Exception | None]:
    """The module after each pass, up to one that fails, and its error."""
    modules = [module]
    for item in passes:
        try:
            modules.append(item(modules[-1]))
        except Exception as error:
            return modules, error
    return modules, None


def _failure(path: str, module: IRModule) -> Exception | None:
    try:
        runpy.run_path(path, {"module": module})
    except SystemExit as end:  # a check that ends as scripts do
        return None if end.code in (None, 0) else RuntimeError(f"it ends with {end.code!r}")
    except Exception as error:
        return error
    return None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
