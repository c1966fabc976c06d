"""Norms of matrices, and `torch.linalg.norm`, which is one of vectors or of matrices."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, ndim_of, scalar, where

from .magnitudes import magnitude
from .promotion import cast
from .reductions import reduced, vector_norm
from .shapes import place_of, shaped
from .table import aten

_LAST = (-2, -1)


@aten("linalg_matrix_norm.default", "linalg_matrix_norm.str_ord")
def matrix_norm(
    self: Expr | None = None,
    ord: Any = "fro",
    dim: Sequence[int] = _LAST,
    keepdim: bool = False,
    dtype: str | None = None,
    A: Expr | None = None,  # noqa: N803  # torch's name
) -> Expr:
    """The norm `ord` of matrices: of their elements, sums of rows or columns, singular values."""
    given = A if self is None else self
    assert given is not None
    x = given if dtype is None else cast(given, dtype)
    axes = [place_of(one, ndim_of(x)) for one in dim]
    if ord == "fro":
        return vector_norm(x, 2, axes, keepdim)
    if ord in (2, -2, "nuc"):
        found = _of_singular_values(x, axes, {2: "max", -2: "min", "nuc": "sum"}[ord])
    else:
        summed, compared = axes if abs(ord) == 1 else axes[::-1]
        sums = reduced("sum", magnitude(x), summed, True)
        found = reduced("max" if ord > 0 else "min", sums, compared, True)
    kept = [size for axis, size in enumerate(dims_of(x)) if axis not in axes]
    sizes = [1 if axis in axes else size for axis, size in enumerate(dims_of(x))]
    return shaped(found, sizes if keepdim else kept)


def _of_singular_values(x: Expr, axes: Sequence[int], operator: str) -> Expr:
    order = [*(axis for axis in range(ndim_of(x)) if axis not in axes), *axes]
    return reduced(operator, call("linalg.svd", call("permute_dims", x, order))[1], -1, False)


@aten("linalg_norm.default", "linalg_norm.ord_str")
def norm(
    self: Expr,
    ord: Any = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: str | None = None,
) -> Expr:
    """Of two axes that of matrices, where an order is given; else that of vectors."""
    axes = [dim] if isinstance(dim, int) else dim
    if ord is None:
        return vector_norm(self, 2, axes, keepdim, dtype)
    if axes is None and ndim_of(self) == 2:
        axes = list(_LAST)
    if axes is not None and len(axes) == 2:
        return matrix_norm(self, ord, axes, keepdim, dtype)
    return vector_norm(self, ord, axes, keepdim, dtype)


@aten("renorm.default")
def renorm(self: Expr, p: Any, dim: int, maxnorm: Any) -> Expr:
    """Slices along an axis, those above a norm scaled down to it."""
    axis = place_of(dim, ndim_of(self))
    length = vector_norm(self, p, [one for one in range(ndim_of(self)) if one != axis], True)
    most, one = scalar(maxnorm, self), scalar(1, self)
    is_long = length > most
    room = scalar(1e-7, self)  # which torch adds
    return self * where(is_long, most / (where(is_long, length, one) + room), one)
