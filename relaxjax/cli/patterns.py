"""Lists of what patterns of the command line stand for: the names in a table that match one."""

import argparse
import fnmatch
from collections.abc import Iterable
from typing import Any

from relaxjax.ir.registry import did_you_mean

from .failure import InputError


def add_listing(parser: argparse.ArgumentParser, items: str, default: str) -> Any:
    """The patterns of what is to be listed, and the group of the forms of the list."""
    parser.add_argument(
        "patterns",
        metavar="PATTERN",
        nargs="*",
        default=[default],
        help=f'list only the {items} whose names match one of these ("{default}")',
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list")
    return form


def matching(kind: str, pattern: str, names: Iterable[str]) -> list[str]:
    """Those that match a pattern such as "relax.nn.*"; an error where there are none."""
    known = list(names)
    found, near = (
        [name for name in known if fnmatch.fnmatchcase(name, one)]
        for one in (pattern, f"*{pattern}*")
    )
    if not found:
        hint = f': try "*{pattern}*"' if near else _nearest(pattern, known)
        raise InputError(f"there is no {kind} `{pattern}`{hint}")
    return found


def _nearest(pattern: str, known: list[str]) -> str:
    """A hint at what was meant: whole names, or else their last parts, as of `relax.nn.relu`."""
    ends = {name.rpartition(".")[2] for name in known}
    return did_you_mean(pattern, known) or did_you_mean(pattern, sorted(ends), "*.")
