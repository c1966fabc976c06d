"""Records as an attribute of a module: mappings from the names of their fields."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def written(records: Iterable[Any]) -> list[dict[str, Any]]:
    """The fields of some dataclasses by name, without those that have their default."""
    return [
        {
            field.name: value
            for field in fields(record)
            if (value := getattr(record, field.name)) != field.default or field.default is MISSING
        }
        for record in records
    ]


def read(kind: type[T], attribute: Any) -> tuple[T, ...]:
    """The dataclasses that an attribute holds; none where the module lacks it."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # of a dataclass
    return tuple(kind(**by_name(names, entry)) for entry in attribute or ())


def by_name(names: Sequence[str], entry: Any) -> Mapping[str, Any]:
    """The values of a record by the names of its fields.

    Older files list the values in the order of the fields, without those that were added later,
    and have -1 for the row of what is no row.
    """
    if isinstance(entry, Mapping):
        return entry
    pairs = zip(names, entry, strict=False)
    return {name: value for name, value in pairs if (name, value) != ("row", -1)}
