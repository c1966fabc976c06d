"""Interpolated pooling over regions of interest.

Bilinear interpolation is a product of one along each axis, so a mean of samples is too: two small
matrices for each region take all its samples at once, however many there are, and their transposes
give the adjoint. A gather of every sample would have a scatter for its adjoint, which is slow.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import aligned, widened
from relaxjax.ops.backward import backward_of, backward_rule
from relaxjax.ops.declare import op
from relaxjax.ops.lettered_layouts import lettered
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.once import computed_once
from relaxjax.ops.shapes import require_choice
from relaxjax.ops.unary import require_float

from .regions import PooledSize, over_regions, regions_type

_LAYOUTS, _MODES = ("NCHW", "NHWC"), ("avg", "max")


class _Samples(NamedTuple):
    """The samples of a region along one axis: `count` in each bin, `step` apart."""

    starts: Any  # of the bins
    step: Any
    count: Any

    def places(self, numbers: Any) -> Any:
        """Where the samples of each bin are that the bins' own `numbers` say."""
        starts, numbers = aligned(self.starts, numbers)
        return starts + (numbers.astype(self.step.dtype) + 0.5) * self.step


def _samples(start: Any, end: Any, bins: int, sample_ratio: int, exact: bool) -> _Samples:
    size = (end - start if exact else jnp.maximum(end - start, 1)) / bins
    adaptive = lax.stop_gradient(jnp.ceil(size)).astype(jnp.int32)
    count = jnp.asarray(sample_ratio, jnp.int32) if sample_ratio > 0 else adaptive
    starts = start + jnp.arange(bins).astype(size.dtype) * size
    return _Samples(starts, size / jnp.maximum(count, 1).astype(size.dtype), count)


def _clamped(places: Any, length: Any) -> tuple[Any, Any]:
    """Places moved inside an axis, and which of them were near enough to count at all.

    Up to one place outside, the border continues; beyond that there is 0.
    """
    end = jnp.asarray(length).astype(places.dtype)
    return jnp.clip(places, 0, end - 1), (places >= -1) & (places <= end)


def _mean_weights(samples: _Samples, sample_ratio: int, length: Any) -> Any:
    """How much of each element of an axis the mean over a bin takes: bins by elements.

    Adaptive samples are more than half a place apart, or one in a bin, so of any region only so
    many can be near the axis; the first of them is found by division.
    """
    most = sample_ratio if sample_ratio > 0 else 2 * (length + 2) + 1
    distance = jnp.maximum(-1 - samples.starts, 0) / jnp.where(samples.step > 0, samples.step, 1)
    first = lax.stop_gradient(jnp.floor(distance)).astype(jnp.int32)
    first = jnp.zeros_like(first) if sample_ratio > 0 else jnp.maximum(first - 1, 0)
    numbers = jnp.expand_dims(first, 0) + jnp.expand_dims(jnp.arange(most, dtype=jnp.int32), 1)
    places, near = _clamped(samples.places(numbers), length)
    counted = near & (numbers < samples.count)
    elements = lax.broadcasted_iota(places.dtype, (*places.shape, length), 2)
    weights = jnp.maximum(1 - jnp.abs(jnp.expand_dims(places, 2) - elements), 0)
    total = jnp.sum(jnp.where(jnp.expand_dims(counted, 2), weights, jnp.zeros_like(weights)), 0)
    return total / jnp.maximum(samples.count, 1).astype(total.dtype)


def _mean(image: Any, down: _Samples, across: _Samples, sample_ratio: int) -> Any:
    by_row = _mean_weights(down, sample_ratio, image.shape[0]).astype(image.dtype)
    by_column = _mean_weights(across, sample_ratio, image.shape[1]).astype(image.dtype)
    return jnp.einsum("ph,hwc,qw->pqc", by_row, image, by_column, precision="highest")


def _interpolated(plane: Any, y: Any, x: Any) -> Any:
    """The bilinear interpolation of one channel at places (y, x)."""
    (y, near_y), (x, near_x) = _clamped(y, plane.shape[0]), _clamped(x, plane.shape[1])
    # Which elements are read, and their weights, are both made of the places rounded.
    y, x = computed_once(y), computed_once(x)
    top, left = (lax.stop_gradient(jnp.floor(place)) for place in (y, x))
    total = jnp.zeros_like(y).astype(plane.dtype)
    for row in (top, top + 1):
        for column in (left, left + 1):
            weight = (1 - jnp.abs(y - row)) * (1 - jnp.abs(x - column))
            value = plane.at[row.astype(jnp.int32), column.astype(jnp.int32)].get(mode="clip")
            total = total + weight.astype(plane.dtype) * value
    return jnp.where(near_y & near_x, total, jnp.zeros_like(total))


def _maximum(image: Any, down: _Samples, across: _Samples) -> Any:
    """The best sample of each bin is found in a loop over them, and then interpolated again.

    So the adjoint is that of one sample, and no table of all samples is needed.
    """
    planes = jnp.moveaxis(image, -1, 0)
    fixed, (rows, columns) = lax.stop_gradient((planes, (down, across)))
    shape = (planes.shape[0], down.starts.shape[0], across.starts.shape[0])

    def better(number: Any, state: Any) -> Any:
        best, found = state
        y = rows.places(jnp.full(rows.starts.shape, number // columns.count))
        x = columns.places(jnp.full(columns.starts.shape, number % columns.count))
        y, x = jnp.meshgrid(y, x, indexing="ij")
        value = jax.vmap(_interpolated, (0, None, None))(fixed, y, x)
        return jnp.maximum(best, value), jnp.where(value > best, number, found)

    start = jnp.full(shape, -jnp.inf, planes.dtype), jnp.full(shape, -1, jnp.int32)
    _, found = lax.fori_loop(0, rows.count * columns.count, better, start)
    row, column = found // jnp.maximum(columns.count, 1), found % jnp.maximum(columns.count, 1)
    spread_down = _Samples(jnp.expand_dims(down.starts, (0, 2)), down.step, down.count)
    spread_across = _Samples(jnp.expand_dims(across.starts, (0, 1)), across.step, across.count)
    best = jax.vmap(_interpolated)(planes, spread_down.places(row), spread_across.places(column))
    return jnp.moveaxis(jnp.where(found >= 0, best, jnp.zeros_like(best)), 0, -1)


def _roi_align(
    data: Any,
    rois: Any,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
    layout: str,
    mode: str,
) -> Any:
    rows, columns = pooled_size

    def pool(image: Any, corners: Any) -> Any:
        left, top, right, bottom = corners
        down = _samples(top, bottom, rows, sample_ratio, aligned)
        across = _samples(left, right, columns, sample_ratio, aligned)
        if mode == "avg":
            return _mean(image, down, across, sample_ratio)
        return _maximum(image, down, across)

    return over_regions(pool, widened(data), rois, spatial_scale, layout).astype(data.dtype)


@op(
    "relax.vision.roi_align",
    layout=lettered(*_LAYOUTS),
    lower=_roi_align,
    gradient=backward_rule("relax.vision.roi_align", "data", "rois"),
    cost=LOWERED,
)
def roi_align(
    data: TensorType,
    rois: TensorType,
    pooled_size: PooledSize,
    spatial_scale: float,
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = "NCHW",
    mode: str = "avg",
) -> TensorType:
    """The mean, or for `mode` "max" the largest, of samples in bins of regions of interest.

    A row of `rois` is (image, x1, y1, x2, y2), its corners times `spatial_scale` are coordinates in
    `data`. Each of the `pooled_size` bins has `sample_ratio` evenly spaced samples along each axis,
    or with one that is not positive the bin's extent rounded up, interpolated bilinearly. A region
    has an extent of 1 at least, unless `aligned`.
    """
    require_choice("layout", layout, _LAYOUTS)
    require_choice("mode", mode, _MODES)
    require_float(data, "data")
    return regions_type(data, rois, pooled_size, layout)


roi_align_backward = backward_of(roi_align, "data", "rois")
