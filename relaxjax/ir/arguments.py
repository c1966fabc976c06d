"""Arguments by their names, and flags: what operators, passes and script forms are called with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .registry import did_you_mean


def by_name(
    call: str,
    names: Sequence[str],
    args: Sequence[Any],
    named: Mapping[str, Any],
    required: Iterable[str] = (),
    noun: str = "argument",
) -> dict[str, Any]:
    """What is given for the parameters `names`; an error where it does not fit them.

    Args:
        call: what is called, as the errors name it.
        required: the parameters that may not be left out.
        noun: what the errors call a parameter's value.
    """
    signature = f"{call}({', '.join(names)})"
    if len(args) > len(names):
        raise TypeError(f"{signature} takes {len(names)} {noun}s, but {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name not in names:
            raise TypeError(f"{signature} has no {noun} `{name}`{did_you_mean(name, list(names))}")
        if name in given:
            raise TypeError(f"{signature}: the {noun} `{name}` is given twice")
        given[name] = value
    for name in required:
        if name not in given:
            raise TypeError(f"{signature}: the {noun} `{name}` is missing")
    return given


def check_flags(**flags: Any) -> None:
    """Raise where one of these is neither: Python takes "no" for true, and None for false."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"`{name}` must be True or False, but it is {value!r}")
