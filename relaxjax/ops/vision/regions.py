"""Regions of interest: what the operators that pool over them share."""

from collections.abc import Callable
from typing import Annotated, Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import widened
from relaxjax.ops.conversions import as_ints
from relaxjax.ops.declare import OpError
from relaxjax.ops.once import computed_once
from relaxjax.ops.shapes import require_ndim, require_numbers, require_sizes

# Regions that are worked on at once: each of them needs a good part of an image in between.
_AT_ONCE = 16


def as_pooled_size(value: Any) -> tuple[Any, ...]:
    """Height and width of the result, one number for both where they are the same."""
    sizes = as_ints(value)
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    if len(sizes) != 2:
        raise TypeError(f"must be 1 or 2 integers, found {list(sizes)}")
    return sizes


PooledSize = Annotated[tuple[int, ...], as_pooled_size]


def over_regions(
    pool: Callable[[Any, Any], Any], data: Any, rois: Any, spatial_scale: float, layout: str
) -> Any:
    """`pool(image, corners)` of each region, both images and results with their channels last.

    Corners are rounded, forward and backward: they are computed once for both.
    """
    images = jnp.moveaxis(data, layout.index("C"), -1)
    table = widened(rois) if jnp.issubdtype(rois.dtype, jnp.floating) else rois.astype(jnp.float32)
    table = computed_once(table * jnp.asarray([[1, *[spatial_scale] * 4]], table.dtype))

    def of_one(roi: Any) -> Any:
        number = jnp.round(roi[0]).astype(jnp.int32)
        image = lax.dynamic_index_in_dim(images, number, 0, keepdims=False)
        return pool(image, roi[1:])

    return jnp.moveaxis(lax.map(of_one, table, batch_size=_AT_ONCE), -1, layout.index("C"))


def regions_type(
    data: TensorType, rois: TensorType, pooled_size: tuple[int, ...], layout: str
) -> TensorType:
    """The type of what is pooled over the regions, after the checks of both tensors."""
    require_ndim("data", data, 4)
    require_ndim("rois", rois, 2)
    require_numbers("data", data)
    require_sizes("pooled_size", pooled_size)
    if rois.dims is not None and can_prove_different(rois.dims[1], 5):
        raise OpError(
            "`rois` must have shape (regions, 5), the image and the corners x1, y1, x2, y2 of "
            f"each, found rows of {rois.dims[1]}"
        )
    if data.dims is None or rois.dims is None:
        return TensorType(None, data.dtype, 4, data.vdevice)
    channels = data.dims[layout.index("C")]
    rest = (*pooled_size, channels) if layout == "NHWC" else (channels, *pooled_size)
    return TensorType((rois.dims[0], *rest), data.dtype, vdevice=data.vdevice)
