"""Grids of places that an affine map gives, for grid_sample."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.types import ShapeType, TensorType
from relaxjax.ops.arrays import cast, widened
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, dims_of, dtype_of, number, scalar
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import dims_text, require_ndim, require_sizes
from relaxjax.ops.unary import require_float


def _complete(size: Expr, **rest: Any) -> Mapping[str, Any]:
    """One number is height and width."""
    if isinstance(size, ShapeExpr) and len(size.values) == 1:
        return {"size": ShapeExpr(size.values * 2)}
    return {}


def _coordinates(size: Any, align_corners: bool, dtype: Any) -> Any:
    """Evenly from -1 to 1: the middles of the outer elements, or with False their outer edges."""
    count = jnp.asarray(size).astype(dtype)
    span = jnp.maximum(count - 1, 1) if align_corners else count
    return (2 * jnp.arange(size).astype(dtype) - (count - 1)) / span


def _affine_grid(data: Any, size: Any, align_corners: bool) -> Any:
    wide, count = widened(data), len(size)
    behind = range(2, 2 + count)
    total = lax.expand_dims(wide[..., count], behind)
    for axis, length in enumerate(size):
        slopes = lax.expand_dims(wide[..., count - 1 - axis], behind)
        places = _coordinates(length, align_corners, wide.dtype)
        others = [a for a in range(2 + count) if a != 2 + axis]
        total = total + slopes * lax.expand_dims(places, others)
    return cast(total, data.dtype)


def _affine_grid_gradient(
    g: Expr, y: Expr, data: Expr, size: Expr, align_corners: bool
) -> tuple[Expr, None]:
    """Each column of the map multiplies a coordinate, the last one 1: their sums with `g`."""
    spatial = list(range(2, len(dims_of(g))))
    columns = [call("sum", g, spatial)]
    for axis in spatial:
        behind = [-1 - a for a in range(spatial[-1] - axis)]
        places = _places(dims_of(g)[axis], align_corners, g)
        spread = call("expand_dims", places, behind) if behind else places
        columns.insert(0, call("sum", g * spread, spatial))
    return call("stack", columns, axis=-1), None


def _places(size: Dim, align_corners: bool, like: Expr) -> Expr:
    """As `_coordinates`, of expressions."""
    count = number(size, like)
    doubled = scalar(2, like) * call("arange", 0, size, 1, dtype_of(like))
    last = count - scalar(1, like)
    span = call("maximum", last, scalar(1, like)) if align_corners else count
    return (doubled - last) / span


@op(
    "relax.image.affine_grid",
    complete=_complete,
    lower=_affine_grid,
    gradient=_affine_grid_gradient,
    fusion="injective",
    cost=LOWERED,
)
def affine_grid(data: TensorType, size: ShapeType, align_corners: bool = True) -> TensorType:
    """The places (x, y) or (x, y, z) where maps take the elements of an image of `size`.

    `data` holds for each image a map of 2 rows and 3 columns, or 3 and 4; the result has shape
    (images, 2, h, w) or (images, 3, d, h, w): y[n] = data[n] @ (x, y, 1). The coordinates go evenly
    from -1 to 1, with `align_corners` the middles of the outer elements, else their edges.
    """
    require_float(data, "data")
    require_ndim("data", data, 3)
    count = size.ndim
    if count not in (-1, 2, 3):
        raise OpError(f"`size` must have 2 or 3 dimensions, found {count}")
    require_sizes("size", size.values or ())
    if data.dims is not None and count > 0:
        wanted = (data.dims[0], count, count + 1)
        if any(map(can_prove_different, data.dims, wanted)):
            raise OpError(
                f"`data` must have shape {dims_text(wanted)} for a size of {count} dimensions, "
                f"found {dims_text(data.dims)}"
            )
    if data.dims is None or size.values is None:
        return TensorType(None, data.dtype, -1 if count < 0 else 2 + count, data.vdevice)
    return TensorType((data.dims[0], count, *size.values), data.dtype, vdevice=data.vdevice)
