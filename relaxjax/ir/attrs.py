"""Attributes: the named constants of a call, a function or a module."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

# The attribute of a call whose function from outside writes its results into arrays that it gets.
DESTINATION_PASSING = "destination_passing"
# Most values are of these, and to ask whether one is a mapping takes longer.
PLAIN = frozenset({str, int, float, bool, type(None)})


class Attrs(Mapping[str, Any]):
    """An immutable, hashable mapping. Lists and arrays become tuples, mappings become `Attrs`.

    Equality tells `1`, `1.0` and `True` apart: they print differently and mean different things.
    """

    __slots__ = ("_hash", "_items", "_key")

    def __init__(self, items: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        merged = {**(items or {}), **more}
        self._items = {str(key): freeze(value) for key, value in merged.items()}
        self._key: tuple[Any, ...] | None = None
        self._hash: int | None = None

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __getattr__(self, name: str) -> Any:
        """The attribute `name`, so that `call.attrs.axis` is `call.attrs["axis"]`."""
        if name[0] == "_" or name not in self._items:
            known = ", ".join(self) if name[0] != "_" else ""
            raise AttributeError(f"there is no attribute `{name}`; there are: {known or 'none'}")
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Attrs) and self._compared() == other._compared())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._compared())
        return self._hash

    def _compared(self) -> tuple[Any, ...]:
        """What tells attributes apart, written out once: maps of calls ask for it often."""
        if self._key is None:
            self._key = tuple(sorted((key, _tagged(item)) for key, item in self._items.items()))
        return self._key

    def __repr__(self) -> str:
        return f"Attrs({self._items!r})"

    def updated(self, /, **changes: Any) -> "Attrs":
        """The attributes with some changed; the same object where all are there already."""
        changed = Attrs(self._items, **changes)
        return self if changed == self else changed

    def without(self, *names: str) -> "Attrs":
        """The attributes without the named ones; the same object where none is there."""
        kept = {key: value for key, value in self._items.items() if key not in names}
        return self if len(kept) == len(self) else Attrs(kept)


def as_attrs(items: Mapping[str, Any] | None) -> Attrs:
    """`items` as attributes, themselves where they are such already."""
    return items if isinstance(items, Attrs) else Attrs(items)


def freeze(value: Any) -> Any:
    """`value` in the immutable form that attributes keep."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, Attrs):
        return value
    if isinstance(value, Mapping):
        return Attrs(value)
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    if isinstance(value, np.ndarray):
        return freeze(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return value


def _tagged(value: Any) -> Any:
    if isinstance(value, tuple):
        return ("tuple", tuple(map(_tagged, value)))
    if isinstance(value, bool | int):
        return (type(value).__name__, value)
    if isinstance(value, float):
        return ("float", repr(value))
    if type(value) not in PLAIN and isinstance(value, Attrs):
        return ("attrs", value._compared())
    return value
