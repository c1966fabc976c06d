"""Areas below points, by the trapezoids between neighbours."""

from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, ndim_of, scalar

from .binary import mul
from .promotion import floating
from .reductions import reduced
from .shapes import place_of, shaped
from .slicing import diff, sliced
from .table import aten


def _pieces(y: Expr, width: Any, dim: int) -> Expr:
    """The area between each point and the next one."""
    y = floating(y)
    place = place_of(dim, ndim_of(y))
    count = dims_of(y)[place]
    both = sliced(y, place, 0, count - 1) + sliced(y, place, 1, count)
    return mul(both * scalar(0.5, y), width)


def _widths(y: Expr, x: Expr, dim: int) -> Expr:
    """How far apart the points lie; those of a row are so for all rows."""
    if ndim_of(x) == 1 and ndim_of(y) > 1:
        behind = ndim_of(y) - 1 - place_of(dim, ndim_of(y))
        return shaped(diff(x), [dims_of(x)[0] - 1, *[1] * behind])
    return diff(x, dim=dim)


@aten("trapezoid.x", "trapz.x")
def trapezoid(y: Expr, x: Expr, dim: int = -1) -> Expr:
    return reduced("sum", _pieces(y, _widths(y, x, dim), dim), dim, False)


@aten("trapezoid.dx", "trapz.dx")
def trapezoid_of_equal_widths(y: Expr, dx: float = 1, dim: int = -1) -> Expr:
    return reduced("sum", _pieces(y, dx, dim), dim, False)


@aten("cumulative_trapezoid.x")
def cumulative_trapezoid(y: Expr, x: Expr, dim: int = -1) -> Expr:
    return call("cumsum", _pieces(y, _widths(y, x, dim), dim), place_of(dim, ndim_of(y)))


@aten("cumulative_trapezoid.dx")
def cumulative_trapezoid_of_equal_widths(y: Expr, dx: float = 1, dim: int = -1) -> Expr:
    return call("cumsum", _pieces(y, dx, dim), place_of(dim, ndim_of(y)))
