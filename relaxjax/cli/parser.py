"""The grammar of the command line: the commands, their arguments, and how a wrong line is met."""

import argparse
import importlib
import sys
from typing import NoReturn

import relaxjax
from relaxjax.ir.highlight import painted
from relaxjax.ir.registry import did_you_mean

from .failure import InputError

# Each command is a module beside this one, imported when it is asked for: help stays quick.
COMMANDS = {
    "opt": "run passes over a module and print the result",
    "passes": "list the passes",
    "bisect": "find the pass of a pipeline that breaks a check",
    "ops": "list the operators",
    "memory": "show what a backward program keeps of its forward part",
    "explore": "write a page that shows a program, its passes, costs and memory",
    "export": "write functions in a form that runs without relaxjax",
    "plan": "find the mesh, sharding and memory policy to train a model by on many devices",
    "train": "train a model that a script defines",
    "predict": "run a trained model on data, and measure it",
    "demo": "train a small network on handwritten digits",
    "doctor": "show what is installed, and what is wrong with it",
    "completion": "print a script by which a shell completes these commands",
}

EXIT_CODES = """\
exit codes:
  0    all went well
  1    a step failed on good input; `bisect` found a pass, or `doctor` a fault
  2    the command line, the file or the pipeline is wrong
  130  interrupted from the keyboard
  141  the program that read the output closed it (a broken pipe)

`relaxjax <command> --help` shows the options of a command, with examples.
What is printed has colours on a terminal, unless NO_COLOR is set, and everywhere if FORCE_COLOR is.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are two lines: the usage, which is long, is there for the asking."""

    def error(self, message: str) -> NoReturn:
        title = painted(f"{self.prog}: error:", "red", sys.stderr)
        self.exit(2, f"{title} {message}\n`{self.prog} --help` tells more\n")


def parsed(given: list[str]) -> argparse.Namespace:
    """The arguments of a command line; the end of the program where they are wrong."""
    asked = next((word for word in given if not word.startswith("-")), None)
    parser, commands = _parsers([name for name in COMMANDS if name == asked])
    if asked is not None and asked not in COMMANDS:
        known = did_you_mean(asked, list(COMMANDS)) or f": there are {', '.join(COMMANDS)}"
        parser.error(f"there is no command `{asked}`{known}")
    if asked is not None:
        _load_own(commands[asked], given)
    args, unknown = parser.parse_known_args(given)
    if unknown:
        own = parser if asked is None else commands[asked]
        options = [name for action in own._actions for name in action.option_strings]
        known = did_you_mean(unknown[0].partition("=")[0], options)
        own.error(f"there is no such argument: {' '.join(unknown)}{known}")
    if asked is None:
        parser.error(f"a command is missing: one of {', '.join(COMMANDS)}")
    args.given = given
    return args


def every_command() -> dict[str, Parser]:
    """The parser of each command."""
    return _parsers(list(COMMANDS))[1]


def _parsers(imported: list[str]) -> tuple[Parser, dict[str, Parser]]:
    """The parser of all, and those of the commands, of which these have their arguments."""
    parser = Parser(
        prog="relaxjax",
        description="Compile, differentiate and train Relax programs on JAX.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"relaxjax {relaxjax.__version__}",
        help="show the version of relaxjax and exit",
    )  # fmt: skip
    commands = parser.add_subparsers(title="commands", metavar="<command>")
    found = {
        name: commands.add_parser(
            name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        for name, summary in COMMANDS.items()
    }
    for name in imported:
        _add_arguments(name, found[name])
    return parser, found


def _load_own(parser: Parser, given: list[str]) -> None:
    """Run the files of --load where a command has it: the rest of the line names what they hold."""
    if "--load" not in parser._option_string_actions:
        return
    from .own import add_load, load

    alone = Parser(prog=parser.prog, add_help=False)
    add_load(alone)
    try:
        load(alone.parse_known_args(given)[0].load)
    except InputError as error:
        parser.error(str(error))


def _add_arguments(name: str, parser: Parser) -> None:
    command = importlib.import_module(f".{name}", __package__)
    parser.description = command.__doc__
    parser.set_defaults(run=command.run)
    command.add_arguments(parser)
    parser.add_argument(
        "--traceback", action="store_true", help="show where in Python an error was raised"
    )
