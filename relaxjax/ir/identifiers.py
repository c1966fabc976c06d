"""Names for printed variables: Python identifiers, each given once."""

import keyword
import unicodedata
from collections.abc import Iterable

RESERVED = frozenset(keyword.kwlist) | {"I", "L", "R", "T", "complex", "float", "metadata", "tvm"}


class Identifiers:
    """The names of one scope. A hint that is taken gets `_1`, `_2`, ... at its end."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*RESERVED, *taken}
        self._next: dict[str, int] = {}

    def unique(self, hint: str) -> str:
        name = hint = identifier(hint)
        while name in self._taken:
            self._next[hint] = self._next.get(hint, 0) + 1
            name = f"{hint}_{self._next[hint]}"
        self._taken.add(name)
        return name


def identifier(hint: str) -> str:
    """`hint` as Python reads it, with whatever may not stand in an identifier replaced by `_`."""
    hint = unicodedata.normalize("NFKC", hint)
    if hint.isidentifier():
        return hint
    cleaned = "".join(char if f"v{char}".isidentifier() else "_" for char in hint)
    return cleaned if cleaned.isidentifier() else f"v{cleaned}"


def check_function_name(name: str) -> None:
    """Raise where the script cannot define a function of that very name: Python normalizes them."""
    normal = unicodedata.normalize("NFKC", name) == name
    if not (normal and name.isidentifier() and name not in RESERVED):
        raise ValueError(
            f"`{name}` cannot name a function: the script needs a Python identifier that means "
            f"nothing else, such as `{Identifiers().unique(name)}`"
        )
