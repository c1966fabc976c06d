"""Places of the largest elements of windows, and what is put back to them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar, where
from relaxjax.ops.shapes import element_count

from .creation import filled
from .indexing import scatter, scatter_add
from .pairs import fixed
from .promotion import cast, lowest
from .reductions import extreme
from .shapes import cat, shaped
from .slicing import sliced
from .table import aten


def places_of_max(
    x: Expr,
    results: Sequence[Dim],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Expr | None:
    """Where the largest elements of windows stand, counted along the spatial axes in a row.

    None where the sizes are not known.
    """
    count = len(kernel)
    sizes = [one for one in dims_of(x)[-count:] if isinstance(one, int)]
    if len(sizes) < count or not all(isinstance(one, int) for one in results):
        return None
    axes = [
        np.arange(int(length))[:, None] * step - room + np.arange(width) * gap
        for length, width, step, room, gap in zip(
            results, kernel, stride, padding, dilation, strict=True
        )
    ]
    places: Any = np.zeros((1, 1), "int64")
    known: Any = np.ones((1, 1), bool)
    for axis, size in zip(axes, sizes, strict=True):
        inside = (axis >= 0) & (axis < size)
        shape = (places.shape[0] * axis.shape[0], places.shape[1] * axis.shape[1])
        apart = places[:, None, :, None] * size + axis.clip(0, size - 1)[None, :, None, :]
        places = apart.reshape(shape)
        known = (known[:, None, :, None] & inside[None, :, None, :]).reshape(shape)
    return _first_largest(x, places, known, count, results)


def _first_largest(x: Expr, places: Any, known: Any, count: int, results: Sequence[Dim]) -> Expr:
    batch = list(dims_of(x))[:-count]
    flat = shaped(fixed(x), [*batch, element_count(dims_of(x)[-count:])])
    windows = call("take", flat, Constant(places), len(batch))
    low = scalar(-np.inf if "float" in dtype_of(x) else lowest(dtype_of(x)), x)
    windows = where(Constant(known), windows, low)
    best = cast(call("argmax", windows, len(batch) + 1, True), "int64")
    table = call("broadcast_to", Constant(places), ShapeExpr((*batch, *places.shape)))
    found = call("gather_elements", table, best, len(batch) + 1)
    return shaped(found, [*batch, *results])


def _unpool(count: int) -> Any:
    def rule(self: Expr, indices: Expr, output_size: Sequence[Dim], **_: Any) -> Expr:
        """Zeros with elements at places; each of those that share one has its adjoint."""
        batch = list(dims_of(self))[:-count]
        rows = [*batch, element_count(dims_of(self)[-count:])]
        x, places, axis = shaped(self, rows), shaped(indices, rows), len(batch)
        base = filled([*batch, element_count(output_size)], 0, dtype_of(self))
        written = scatter(base, axis, places, fixed(x))
        moved = scatter_add(base, axis, places, x - fixed(x))
        return shaped(written + moved, [*batch, *output_size])

    return rule


aten("max_unpool2d.default")(_unpool(2))
aten("max_unpool3d.default")(_unpool(3))


def adaptive_max(x: Expr, size: Sequence[int]) -> tuple[Expr, Expr]:
    """The largest elements of windows of different lengths, and their places; the first of equals.

    It goes along one axis after another, the last one first.
    """
    first, lengths = ndim_of(x) - len(size), dims_of(x)[-len(size) :]
    for length, wanted in zip(lengths, size, strict=True):
        if not isinstance(length, int):
            raise ValueError(
                f"windows of different lengths, from an axis of {length} to {wanted}: "
                "export the model with that size fixed"
            )
    counted = np.arange(math.prod(map(int, lengths))).reshape([int(one) for one in lengths])
    places: Expr = call("broadcast_to", Constant(counted), ShapeExpr(dims_of(x)))
    for axis in reversed(range(first, ndim_of(x))):
        length, wanted = int(lengths[axis - first]), size[axis - first]
        ends = [(i * length // wanted, -(-(i + 1) * length // wanted)) for i in range(wanted)]
        found = [(extreme("argmax")(sliced(x, axis, *end), axis, True), end) for end in ends]
        x = cat([largest for (largest, _), _ in found], axis)
        parts = [
            call("gather_elements", sliced(places, axis, *end), place, axis)
            for (_, place), end in found
        ]
        places = cat(parts, axis)
    return x, places
