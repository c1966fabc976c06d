"""The command `relaxjax` itself: it finds the command to run, and reports what goes wrong."""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import relaxjax
from relaxjax.ir.registry import did_you_mean

from .failure import InputError, described

# Each command is a module beside this one, imported when it is asked for: help stays quick.
COMMANDS = {
    "opt": "run passes over a module and print the result",
    "passes": "list the passes",
    "bisect": "find the pass of a pipeline that breaks a check",
    "ops": "list the operators",
    "memory": "show what a backward program keeps of its forward part",
    "export": "write functions in a form that runs without relaxjax",
    "train": "train a model that a script defines",
    "predict": "run a trained model on data, and measure it",
    "demo": "train a small network on handwritten digits",
}

EXIT_CODES = """\
exit codes:
  0    all went well
  1    a pass or another step failed on good input
  2    the command line, the file or the pipeline is wrong
  130  interrupted from the keyboard
  141  whoever reads the output went away

Programs are printed in colour on a terminal, unless NO_COLOR is set.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    args = _parsed(given)
    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as error:
        print(": ".join(["relaxjax: interrupted", *map(str, error.args)]), file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Python flushes the output once more at its end, and must not find the broken pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if args.traceback:
            traceback.print_exception(error)
        print(f"relaxjax: error: {described(error)}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: the usage, which is long, is there for the asking."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n`{self.prog} --help` tells more\n")


def _parsed(given: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="relaxjax",
        description="Compile, differentiate and train Relax programs on JAX.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"relaxjax {relaxjax.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="<command>")
    asked = next((word for word in given if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == asked:
            _add_arguments(command, importlib.import_module(f".{name}", __package__))
    if asked is not None and asked not in COMMANDS:
        known = did_you_mean(asked, list(COMMANDS)) or f": there are {', '.join(COMMANDS)}"
        parser.error(f"there is no command `{asked}`{known}")
    args, unknown = parser.parse_known_args(given)
    if unknown:
        (parser if asked is None else commands.choices[asked]).error(
            f"there is no such argument: {' '.join(unknown)}"
        )
    if asked is None:
        parser.error(f"a command is missing: one of {', '.join(COMMANDS)}")
    return args


def _add_arguments(parser: argparse.ArgumentParser, command: ModuleType) -> None:
    parser.description = command.__doc__
    parser.set_defaults(run=command.run)
    command.add_arguments(parser)
    parser.add_argument(
        "--traceback", action="store_true", help="show where in Python an error was raised"
    )
