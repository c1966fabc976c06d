"""The table of operators by name. Floors above fill it; everything may look things up."""

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Op

OPS: "dict[str, Op]" = {}


def get_op(name: str) -> "Op":
    """The operator called `name`; an unknown name is an error that suggests near misses."""
    if name in OPS:
        return OPS[name]
    raise KeyError(f"there is no operator `{name}`{did_you_mean(name, OPS)}")


def did_you_mean(name: str, known: "dict[str, Op] | list[str]") -> str:
    """`; did you mean ...?` for the names that look like `name`, empty where none does."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(f'`{match}`' for match in close)}?" if close else ""
