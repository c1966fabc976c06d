"""Values in tuples of tuples: the fields, the parts by their paths, and all that is in them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from .expr import Expr, Tuple, TupleGetItem
from .types import TupleType, Type

# The fields to take, one after the other.
Path: TypeAlias = tuple[int, ...]


def field_of(value: Expr, index: int) -> Expr:
    """A field of a tuple, taken out where the tuple is written out."""
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


def at(value: Expr, path: Path) -> Expr:
    """What a path leads to."""
    for index in path:
        value = field_of(value, index)
    return value


def fields_or_self(value: Expr) -> tuple[Expr, ...]:
    """The fields of a tuple that is written out; anything else alone."""
    return value.fields if isinstance(value, Tuple) else (value,)


def one_or_tuple(values: Sequence[Expr]) -> Expr:
    """A value alone as it is, several as a tuple."""
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def leaves(value: Expr, path: Path = ()) -> Iterator[tuple[Path, Expr]]:
    """What stands in tuples as they are written, and the path to each."""
    if isinstance(value, Tuple):
        for index, field in enumerate(value.fields):
            yield from leaves(field, (*path, index))
    else:
        yield path, value


def filled(value: Expr, change: Callable[[Path, Expr], Expr], path: Path = ()) -> Expr:
    """A tuple of tuples with each of its leaves changed."""
    if not isinstance(value, Tuple):
        return change(path, value)
    fields = enumerate(value.fields)
    return Tuple(tuple(filled(field, change, (*path, place)) for place, field in fields))


def assembled(ty: Type | None, values: Iterator[Expr]) -> Expr:
    """A value of a type of tuples, made of the values of its leaves."""
    if isinstance(ty, TupleType):
        return Tuple(tuple(assembled(field, values) for field in ty.fields))
    return next(values)
