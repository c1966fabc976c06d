"""Slopes of a tensor between its neighbours along axes, `torch.gradient`."""

from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, ndim_of, scalar

from .promotion import floating
from .shapes import place_of, shaped
from .slicing import sliced
from .table import aten


@aten(
    *("gradient.scalarint", "gradient.scalararray", "gradient.array"),
    *("gradient.scalarrayint", "gradient.scalarrayarray"),
    *("gradient.tensorarrayint", "gradient.tensorarray"),
)
def gradient(self: Expr, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list[Expr]:
    """Along each axis; `spacing` is one number, or for each a number or the places of elements."""
    x = floating(self)
    given = range(ndim_of(x)) if dim is None else [dim] if isinstance(dim, int) else dim
    places = [place_of(one, ndim_of(x)) for one in given]
    is_listed = isinstance(spacing, list | tuple)
    spacings = spacing if is_listed else [1 if spacing is None else spacing] * len(places)
    return [
        _slopes(x, place, _steps(x, place, one), edge_order)
        for place, one in zip(places, spacings, strict=True)
    ]


def _steps(x: Expr, place: int, spacing: Any) -> Expr:
    """How far apart neighbours are along an axis: one number, or one for each two of them."""
    if not isinstance(spacing, Expr) or not ndim_of(spacing):
        return spacing if isinstance(spacing, Expr) else scalar(spacing, x)
    size = dims_of(spacing)[0]
    apart = sliced(spacing, 0, 1, size) - sliced(spacing, 0, 0, size - 1)
    return shaped(apart, [-1 if axis == place else 1 for axis in range(ndim_of(x))])


def _slopes(x: Expr, place: int, steps: Expr, edge_order: int) -> Expr:
    """In between, those of the parabola through an element and its two neighbours."""
    size = dims_of(x)[place]

    def part(values: Expr, start: Dim, end: Dim) -> Expr:
        return sliced(values, place, start, end) if ndim_of(values) else values

    rises = (part(x, 1, size) - part(x, 0, size - 1)) / steps
    before, behind = part(rises, 0, size - 2), part(rises, 1, size - 1)
    near, far = part(steps, 0, size - 2), part(steps, 1, size - 1)
    inner = (before * far + behind * near) / (near + far)
    first, last = part(rises, 0, 1), part(rises, size - 2, size - 1)
    if edge_order == 2:
        first = _at_end(first, part(rises, 1, 2), part(steps, 0, 1), part(steps, 1, 2))
        ends = (size - 2, size - 1), (size - 3, size - 2)
        last = _at_end(last, part(rises, *ends[1]), *(part(steps, *end) for end in ends))
    return call("concat", [first, inner, last], place)


def _at_end(rise: Expr, next_rise: Expr, near: Expr, far: Expr) -> Expr:
    """The slope at the outer one of three elements."""
    return rise + (rise - next_rise) * near / (near + far)
