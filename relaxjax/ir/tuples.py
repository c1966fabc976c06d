"""Tuples of tuples: the fields, the parts by their paths, and all values and types in them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, overload

from .expr import Expr, Tuple, TupleGetItem
from .node import replace
from .types import TensorType, TupleType, Type
from .walk import kept

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


def leaves_by_type(value: Expr) -> Iterator[Expr]:
    """What a value holds that is no tuple by its type, taken out where it is not written out."""
    if isinstance(value.ty, TupleType):
        for field in value:
            yield from leaves_by_type(field)
    else:
        yield value


def leaf_types(ty: Type | None, path: Path = ()) -> Iterator[tuple[Path, Type | None]]:
    """What a type of tuples holds that is none, and the path to each."""
    if isinstance(ty, TupleType):
        for index, field in enumerate(ty.fields):
            yield from leaf_types(field, (*path, index))
    else:
        yield path, ty


def tensors_in(ty: Type | None, path: Path = ()) -> Iterator[tuple[Path, TensorType]]:
    """The tensors in a type, and the path to each."""
    return ((way, leaf) for way, leaf in leaf_types(ty, path) if isinstance(leaf, TensorType))


@overload
def each_tensor(ty: Type, change: Callable[[TensorType], Type]) -> Type: ...
@overload
def each_tensor(ty: Type | None, change: Callable[[TensorType], Type]) -> Type | None: ...
def each_tensor(ty: Type | None, change: Callable[[TensorType], Type]) -> Type | None:
    """A type with each of its tensors changed."""
    if isinstance(ty, TupleType):
        return replace(ty, fields=kept(ty.fields, (each_tensor(f, change) for f in ty.fields)))
    return change(ty) if isinstance(ty, TensorType) else ty


def assembled(ty: Type | None, values: Iterator[Expr]) -> Expr:
    """A value of a type of tuples, made of the values of its leaves."""
    if isinstance(ty, TupleType):
        return Tuple(tuple(assembled(field, values) for field in ty.fields))
    return next(values)


def as_tuple(items: "Sequence[Expr] | Expr") -> Expr:
    """Python's nested sequences of expressions as a tuple expression; an expression as it is."""
    if isinstance(items, Expr):
        return items
    given: Any = items  # whatever the caller's annotations say
    if isinstance(given, Sequence) and not isinstance(given, str):
        return Tuple(tuple(map(as_tuple, given)))
    raise TypeError(f"`{given!r}` is no expression: write R.const(value, dtype) for a number")
