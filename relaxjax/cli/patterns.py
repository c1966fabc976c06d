"""The names in a table that a pattern of the command line stands for."""

import fnmatch
from collections.abc import Iterable

from relaxjax.ir.registry import did_you_mean

from .failure import InputError


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
