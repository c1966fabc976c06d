"""Max pooling over regions of interest."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from relaxjax.ir.types import TensorType
from relaxjax.ops.backward import backward_of, backward_rule
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.lettered_layouts import lettered
from relaxjax.ops.lowered_cost import LOWERED

from .regions import PooledSize, over_regions, regions_type


def _inside_bins(start: Any, end: Any, bins: int, length: Any) -> Any:
    """Which places of an axis are inside each bin of a region, as a table of bins by places.

    The ends are rounded, so a region has whole places; neighbouring bins may share a place.
    """
    first = jnp.floor(start + 0.5)
    extent = jnp.maximum(jnp.floor(end + 0.5) - first + 1, 1)
    edges = jnp.arange(bins + 1).astype(start.dtype) * (extent / bins)
    lows, highs = jnp.floor(edges[:-1]), jnp.ceil(edges[1:])
    places = jnp.expand_dims(jnp.arange(length).astype(start.dtype) - first, 0)
    return (places >= jnp.expand_dims(lows, 1)) & (places < jnp.expand_dims(highs, 1))


def _largest(values: Any, inside: Any, axis: int) -> Any:
    """The largest element along `axis` inside each bin, the lowest number for an empty bin."""
    floating = jnp.issubdtype(values.dtype, jnp.floating)
    number = -np.inf if floating else np.iinfo(np.dtype(values.dtype)).min
    lowest = jnp.asarray(number, values.dtype)
    behind = range(2, 1 + values.ndim - axis)
    mask = jnp.expand_dims(inside, (*range(axis), *(axis + a for a in behind)))
    return jnp.max(jnp.where(mask, jnp.expand_dims(values, axis), lowest), axis + 1, initial=lowest)


def _roi_pool(data: Any, rois: Any, pooled_size: Any, spatial_scale: float, layout: str) -> Any:
    rows, columns = pooled_size

    def pool(image: Any, corners: Any) -> Any:
        left, top, right, bottom = corners
        down = _inside_bins(top, bottom, rows, image.shape[0])
        across = _inside_bins(left, right, columns, image.shape[1])
        pooled = _largest(_largest(image, down, 0), across, 1)
        full = jnp.expand_dims(jnp.any(down, 1), 1) & jnp.expand_dims(jnp.any(across, 1), 0)
        return jnp.where(jnp.expand_dims(full, 2), pooled, jnp.zeros_like(pooled))

    return over_regions(pool, data, rois, spatial_scale, layout)


@op(
    "relax.vision.roi_pool",
    layout=lettered("NCHW", "NHWC"),
    lower=_roi_pool,
    gradient=backward_rule("relax.vision.roi_pool", "data"),
    cost=LOWERED,
)
def roi_pool(
    data: TensorType,
    rois: TensorType,
    pooled_size: PooledSize,
    spatial_scale: float,
    layout: str = "NCHW",
) -> TensorType:
    """The largest element in each of `pooled_size` bins of regions of interest; 0 of an empty bin.

    A row of `rois` is (image, x1, y1, x2, y2); times `spatial_scale` and rounded, a half up, its
    corners are places of `data` inside the region. Elements that tie share the adjoint.
    """
    if layout != "NCHW":
        raise OpError(f'`layout` must be "NCHW", found "{layout}"')
    return regions_type(data, rois, pooled_size, layout)


roi_pool_backward = backward_of(roi_pool, "data")
