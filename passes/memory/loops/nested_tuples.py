"""Values in tuples of tuples."""

from collections.abc import Callable, Iterator

from relaxjax.ir.expr import Expr, Tuple, TupleGetItem

from ..program.loop_pairs import Path


def leaves(value: Expr, path: Path = ()) -> Iterator[tuple[Path, Expr]]:
    """What is in a tuple of tuples, and the way to each."""
    if not isinstance(value, Tuple):
        yield path, value
    else:
        for place, field in enumerate(value.fields):
            yield from leaves(field, (*path, place))


def filled(value: Expr, change: Callable[[Path, Expr], Expr], path: Path = ()) -> Expr:
    """A tuple of tuples with each of its leaves changed."""
    if not isinstance(value, Tuple):
        return change(path, value)
    fields = enumerate(value.fields)
    return Tuple(tuple(filled(field, change, (*path, place)) for place, field in fields))


def at(value: Expr, path: Path) -> Expr:
    """A part of a tuple of tuples, which may be known by name alone."""
    for place in path:
        value = value.fields[place] if isinstance(value, Tuple) else TupleGetItem(value, place)
    return value
