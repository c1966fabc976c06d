"""Index maps: where each element of a tensor goes in another layout of it."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .dim_variables import dim_vars, substitute_dim
from .dims import Dim, SymbolicVar, as_dim, dim_text
from .wording import tuple_text

_AXES: list[SymbolicVar] = []
_SUBAXIS = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")


def index_axes(count: int) -> tuple[SymbolicVar, ...]:
    """The variables that stand for a place along each axis, the same ones in every map."""
    _AXES.extend(SymbolicVar(f"i{number}") for number in range(len(_AXES), count))
    return tuple(_AXES[:count])


@dataclass(frozen=True, slots=True, repr=False)
class IndexMap:
    """Takes the place of an element to its place in another layout, axis by axis.

    `T.index_map(lambda n, c: (n, c // 4, c % 4))`: `outputs` are written in `index_axes(ndim)`.
    Two maps are equal whatever their parameters are called.
    """

    ndim: int
    outputs: tuple[Dim, ...]
    names: tuple[str, ...] = field(compare=False)

    def __repr__(self) -> str:
        names = dict(zip(index_axes(self.ndim), self.names, strict=True))
        items = [dim_text(item, names.__getitem__) for item in self.outputs]
        listed = tuple_text(items)
        return f"T.index_map(lambda {', '.join(self.names)}: {listed})"

    def __reduce__(self) -> Any:
        """Pickled with its variables, which are others where it is read back."""
        return index_map_over, (self.names, index_axes(self.ndim), self.outputs)


def index_map(layout: Callable[..., Any] | str | IndexMap) -> IndexMap:
    """A map from a function of places, or from the layouts before and after.

    `index_map(lambda n, c: (n, c // 4, c % 4))`, or `index_map("NCHW -> NCHW4c")`, where `4c` is an
    axis of 4 elements that `C` is cut into.
    """
    if isinstance(layout, IndexMap):
        return layout
    if isinstance(layout, str):
        return _from_layouts(layout)
    if not callable(layout):
        raise TypeError(
            f"must be a function such as `lambda n, c: (c, n)`, or layouts such as "
            f'"NCHW -> NHWC", but `{layout!r}` of type {type(layout).__name__} was given'
        )
    names = _parameter_names(layout)
    axes = index_axes(len(names))
    found = layout(*axes)
    outputs = found if isinstance(found, tuple | list) else (found,)
    return index_map_over(names, axes, tuple(map(as_dim, outputs)))


def index_map_over(
    names: Sequence[str], axes: Sequence[SymbolicVar], outputs: Sequence[Dim]
) -> IndexMap:
    """The map from places `axes`, called `names`, to `outputs`."""
    free = {var for item in outputs for var in dim_vars(item)} - set(axes)
    if free:
        raise ValueError(f"may use its own parameters only, but it uses {sorted(map(str, free))}")
    if not all(name.isidentifier() for name in names) or len(set(names)) != len(axes):
        raise ValueError(f"must name each of its {len(axes)} parameters once, found {list(names)}")
    mapping = dict(zip(axes, index_axes(len(axes)), strict=True))
    return IndexMap(
        len(axes), tuple(substitute_dim(item, mapping) for item in outputs), tuple(names)
    )


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    if any(item.kind is not item.POSITIONAL_OR_KEYWORD for item in parameters):
        raise TypeError("must have plain parameters, one for each axis: no `*`, no `**`")
    return [item.name for item in parameters]


def _from_layouts(text: str) -> IndexMap:
    """Both layouts name the same axes by capital letters; small letters are parts of them."""
    before, arrow, after = (part.strip() for part in text.partition("->"))
    source, target = _subaxes(before, text), _subaxes(after, text)
    letters = {name.upper() for name, _ in source}
    if not arrow or letters != {name.upper() for name, _ in target}:
        raise ValueError(f'must be two layouts of the same axes, as "NCHW -> NHWC", found "{text}"')
    names = [name for name, _ in source]
    axes = index_axes(len(names))
    places: dict[str, Dim] = {}
    for (name, _), axis in zip(source, axes, strict=True):
        scale = dict(source).get(name.lower(), 1) if name.isupper() else 1
        places[name.upper()] = places.get(name.upper(), 0) + axis * scale
    outputs = [_part(places[name.upper()], name, dict(target)) for name, _ in target]
    return index_map_over(names, axes, outputs)


def _part(place: Dim, name: str, layout: dict[str, int]) -> Dim:
    """What a layout's axis holds of the place along the axis of its letter."""
    factor = layout.get(name.lower(), 1)
    return place // factor if name.isupper() else place % factor


def _subaxes(layout: str, text: str) -> list[tuple[str, int]]:
    """The axes of a layout with their sizes, 1 for those whose size it does not say."""
    found = [(letter or part, int(size or 1)) for letter, size, part in _SUBAXIS.findall(layout)]
    names = [name for name, _ in found]
    whole = _SUBAXIS.sub("", layout) == "" and len(set(names)) == len(names)
    if not whole or any(name.upper() not in names for name in names):
        raise ValueError(f'must be layouts such as "NCHW" or "NCHW16c", found "{text}"')
    return found
