"""Reading images at the places of a grid, interpolated."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import cast, widened
from relaxjax.ops.backward import backward_of, backward_rule
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.lettered_layouts import lettered
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.once import computed_once
from relaxjax.ops.shapes import require_choice, require_ndim
from relaxjax.ops.unary import require_float

from .interpolation import Tap, check_choice, cubic_weights, linear_weights

_METHODS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC_ALPHA = -0.75


def _reflected(places: Any, length: Any, align_corners: bool) -> Any:
    """Places beyond an end mirrored, at the middles of the outer elements or at their edges."""
    low = 0.0 if align_corners else -0.5
    span = jnp.asarray(length).astype(places.dtype) - (1 if align_corners else 0)
    distance = jnp.abs(places - low)
    turns = lax.stop_gradient(jnp.floor(distance / jnp.maximum(span, 1)))
    rest = distance - turns * span
    return low + jnp.where(turns % 2 == 0, rest, span - rest)


def _moved_inside(places: Any, length: Any, padding_mode: str, align_corners: bool) -> Any:
    """Places as the padding has them: those outside on the border, mirrored, or left outside.

    What is moved onto an end has no slope, and neither has what lies there, as in PyTorch.
    """
    if padding_mode == "zeros":
        return places
    if padding_mode == "reflection":
        places = _reflected(places, length, align_corners)
    last = jnp.asarray(length).astype(places.dtype) - 1
    within = (places > 0) & (places < last)
    return jnp.where(within, places, lax.stop_gradient(jnp.clip(places, 0, last)))


def _axis_taps(
    grid: Any, length: Any, method: str, padding_mode: str, align_corners: bool
) -> list[Tap]:
    """What an interpolation takes along one axis; the weight of what lies outside is 0."""
    count = jnp.asarray(length).astype(grid.dtype)
    edge = (grid + 1) * count / 2 - 0.5
    places = (grid + 1) * (count - 1) / 2 if align_corners else edge
    move = functools.partial(
        _moved_inside, length=length, padding_mode=padding_mode, align_corners=align_corners
    )
    # Which elements are read, and their weights, are both made of the places rounded.
    places = computed_once(places if method == "bicubic" else move(places))
    if method == "nearest":
        spot = lax.stop_gradient(jnp.round(places))
        return [_tap(spot, jnp.ones_like(spot), length)]
    floor = lax.stop_gradient(jnp.floor(places))
    if method == "bilinear":
        weights = linear_weights(places - floor)
        return [_tap(floor + number, weight, length) for number, weight in enumerate(weights)]
    weights = cubic_weights(places - floor, _CUBIC_ALPHA)
    return [
        _tap(lax.stop_gradient(move(floor + number - 1)), weight, length)
        for number, weight in enumerate(weights)
    ]


def _tap(spot: Any, weight: Any, length: Any) -> Tap:
    inside = (spot >= 0) & (spot < jnp.asarray(length).astype(spot.dtype))
    places = jnp.clip(spot.astype(jnp.int32), 0, length - 1)
    return Tap(places, jnp.where(inside, weight, jnp.zeros_like(weight)))


def _grid_sample(
    data: Any, grid: Any, method: str, layout: str, padding_mode: str, align_corners: bool
) -> Any:
    """With the channels last: their gather, and much more so its adjoint, are quicker in rows."""
    images = jnp.moveaxis(data, layout.index("C"), -1)
    images = images if method == "nearest" else widened(images)
    lengths = images.shape[1:-1]
    options = (method, padding_mode, align_corners)
    wide = widened(grid)
    axes = [_axis_taps(wide[:, -1 - axis], length, *options) for axis, length in enumerate(lengths)]
    parts = [_weighted(images, taps) for taps in itertools.product(*axes)]
    total = functools.reduce(jnp.add, parts)
    return cast(jnp.moveaxis(total, -1, layout.index("C")), data.dtype)


def _weighted(images: Any, taps: Sequence[Tap]) -> Any:
    """What one tap of each axis reads, times their weights."""

    def read(image: Any, places: Any) -> Any:
        return image[places]

    values = jax.vmap(read)(images, tuple(tap.places for tap in taps))
    weight = functools.reduce(jnp.multiply, [tap.weights for tap in taps])
    return values * jnp.expand_dims(weight, -1).astype(values.dtype)


def _sampled_type(data: TensorType, grid: TensorType, layout: str) -> TensorType:
    count = len(layout) - 2
    require_ndim("data", data, count + 2)
    require_ndim("grid", grid, count + 2)
    if data.dims is None or grid.dims is None:
        return TensorType(None, data.dtype, count + 2, data.vdevice)
    if can_prove_different(grid.dims[1], count):
        raise OpError(
            f"`grid` must have shape (images, {count}, ...), x before y, found {grid.dims[1]} "
            "for its second dimension"
        )
    if can_prove_different(grid.dims[0], data.dims[0]):
        raise OpError(
            f"`grid` must be for the {data.dims[0]} images of `data`, found {grid.dims[0]}"
        )
    spatial: Sequence[Any] = grid.dims[2:]
    channels = data.dims[layout.index("C")]
    last = layout.endswith("C")
    dims = (data.dims[0], *spatial, channels) if last else (data.dims[0], channels, *spatial)
    return TensorType(dims, data.dtype, vdevice=data.vdevice)


@op(
    "relax.image.grid_sample",
    layout=lettered("NCHW", "NHWC", "NCDHW", "NDHWC"),
    lower=_grid_sample,
    gradient=backward_rule("relax.image.grid_sample", "data", "grid"),
    fusion="injective",
    cost=LOWERED,
)
def grid_sample(
    data: TensorType,
    grid: TensorType,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> TensorType:
    """Images read at the places of `grid`: y[n, :, i, j] is `data[n]` at (x, y) = grid[n, :, i, j].

    `grid` has shape (images, 2, h, w), or (images, 3, d, h, w) for images of depth, height and
    width. -1 and 1 are with `align_corners` the middles of the outer elements, else their edges.
    `method` is nearest (a half goes to the even one), bilinear (between eight elements in three
    dimensions) or bicubic (in two only, with alpha = -0.75). What is outside is, by `padding_mode`,
    zeros, the border, or a reflection.
    """
    require_choice("layout", layout, ("NCHW", "NHWC", "NCDHW", "NDHWC"))
    check_choice("method", method, _METHODS)
    check_choice("padding_mode", padding_mode, _PADDINGS)
    if method == "bicubic" and len(layout) > 4:
        raise OpError("`method` may be bicubic in two dimensions only")
    require_float(grid, "grid")
    if method != "nearest":
        require_float(data, "data")
    return _sampled_type(data, grid, layout)


grid_sample_backward = backward_of(grid_sample, "data", "grid")
