"""Calls of `relax.*` that rules write, without those that change nothing."""

from collections.abc import Sequence

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.tensor_types import known_dims
from relaxjax.ops.emit import call


def in_order(x: Expr, axes: Sequence[int]) -> Expr:
    """`x` with its axes in another order."""
    return x if list(axes) == sorted(axes) else call("permute_dims", x, axes)


def of_shape(x: Expr, shape: Sequence[Dim]) -> Expr:
    """The elements of `x` in another shape."""
    return x if known_dims(x) == tuple(shape) else call("reshape", x, ShapeExpr(tuple(shape)))
