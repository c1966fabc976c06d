"""Tensors whose axes have names, so that what reorders, splits and merges them can be undone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ops.shapes import element_count

from .writing import in_order, of_shape

Names = tuple[str, ...]  # of the axes that were merged into one, the slowest first
Sizes = Mapping[str, Dim]


@dataclass(frozen=True)
class Named:
    """A tensor and the names of its axes; one of a single element has none."""

    expr: Expr
    axes: tuple[Names, ...]

    @property
    def names(self) -> Names:
        return tuple(chain.from_iterable(self.axes))


def regrouped(
    axes: Sequence[Names], sizes: Sizes, dims: Sequence[Dim] | None
) -> tuple[Names, ...] | None:
    """The names of axes after a reshape, None where it splits one that has a name."""
    waiting, found = list(chain.from_iterable(axes)), []
    for dim in dims or ():
        group: list[str] = []
        while element_count([sizes[name] for name in group]) != dim:
            if not waiting:
                return None
            group.append(waiting.pop(0))
        found.append(tuple(group))
    return None if waiting else tuple(found)


def laid(tensor: Named, groups: Sequence[Names], sizes: Sizes) -> Expr | None:
    """A tensor with one axis for each group of names, of one element for a group that it lacks.

    None where it has some names of a group, but not all.
    """
    names = tensor.names
    kept = [group for group in groups if set(group) <= set(names)]
    order = [names.index(name) for group in kept for name in group]
    if sorted(order) != list(range(len(names))):
        return None
    x = tensor.expr
    if order != sorted(order):
        x = in_order(of_shape(x, [sizes[name] for name in names]), order)
    shape = [element_count([sizes[n] for n in g]) if g in kept else 1 for g in groups]
    return of_shape(x, shape)
