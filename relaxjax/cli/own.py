"""The option `--load`: Python files that are run first, whose passes and losses have names then."""

import argparse
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from relaxjax.losses import Loss
from relaxjax.passes import Pass, PassFactory

from .failure import InputError, described

T = TypeVar("T")

# What the files of this command line call by a name: the names of options are looked up in it.
_NAMES: dict[str, Any] = {}


def add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--load", metavar="FILE", action="append", default=[],
        help="run this Python file first: it may declare passes, losses and operators",
    )  # fmt: skip


def load(files: Sequence[str]) -> None:
    """Run the files of a command line, and of no other one."""
    _NAMES.clear()
    for file in files:
        _NAMES.update(run_file(file, Path(file).stem))


def own_passes() -> Mapping[str, Callable[..., Pass]]:
    """What gives the passes of the files: declared ones, single ones, and classes of them."""
    return {name: maker for name, value in _NAMES.items() if (maker := _maker(value)) is not None}


def own_losses() -> Mapping[str, Callable[[], Loss]]:
    """What gives the losses of the files: classes of them, and single ones."""
    found: dict[str, Any] = {}  # a class that needs options says so when it is called
    for name, value in _NAMES.items():
        if isinstance(value, Loss):
            found[name] = partial(_itself, value)
        elif isinstance(value, type) and issubclass(value, Loss) and _is_own(value):
            found[name] = value
    return found


def run_file(file: str, name: str) -> dict[str, Any]:
    """The names of a file that is run under a name, with what lies beside it."""
    if not Path(file).is_file():
        raise InputError(f"there is no file `{file}`")
    sys.path.insert(0, str(Path(file).resolve().parent))
    try:
        return runpy.run_path(file, run_name=name)
    except SyntaxError as error:
        raise InputError(f"`{file}` cannot be run: {described(error)}") from error
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise InputError(f"`{file}` cannot be run: {problem}{_line(file, error)}") from error
    finally:
        del sys.path[0]


def _maker(value: Any) -> Callable[..., Pass] | None:
    if isinstance(value, PassFactory):
        return value
    if isinstance(value, Pass):
        return partial(_itself, value)
    is_class = isinstance(value, type) and issubclass(value, Pass) and _is_own(value)
    return value if is_class else None


def _itself(value: T) -> T:
    return value


def _is_own(value: type) -> bool:
    """Whether a class is none of those that the file imports from here."""
    return not value.__module__.startswith("relaxjax.")


def _line(file: str, error: Exception) -> str:
    """The last line of the file that was being run."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" (line {lines[-1]})" if lines else ""
