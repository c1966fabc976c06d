"""Padding, and rearrangements of images that models use."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Partial
from relaxjax.ir.types import TensorType
from relaxjax.ops.axis_layouts import PADDED
from relaxjax.ops.conversions import Ints
from relaxjax.ops.cost_rules import MOVES, VIEWS
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, dims_of, shape_of
from relaxjax.ops.shape_layouts import RESHAPED
from relaxjax.ops.shapes import dims_text, element_count
from relaxjax.ops.traced import traced_gradient

# As TVM names the modes, and numpy.
_MODES = {"reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}
_RULES: dict[str, Any] = {"precision": "follow", "fusion": "injective"}


def _is_negative(width: Dim) -> bool:
    return isinstance(width, int) and width < 0


def _pairs(widths: Any) -> list[tuple[Any, Any]]:
    return list(zip(widths[::2], widths[1::2], strict=True))


def _pad(data: Any, pad_width: Any, pad_mode: str, pad_value: float) -> Any:
    if pad_mode != "constant":
        return jnp.pad(data, _pairs(pad_width), mode=_MODES[pad_mode])
    value = jnp.asarray(pad_value).astype(data.dtype)
    return lax.pad(data, value, [(low, high, 0) for low, high in _pairs(pad_width)])


def _pad_gradient(
    g: Expr, y: Expr, data: Expr, pad_width: Any, pad_mode: str, pad_value: float
) -> tuple[Partial, ...]:
    """Of constant padding, what lies inside; a negative width cut off, and comes back as zeros."""
    if pad_mode != "constant":
        rule = traced_gradient("relax.nn.pad")
        attrs = {"pad_width": pad_width, "pad_mode": pad_mode, "pad_value": pad_value}
        return tuple(rule(g, y, data, **attrs))
    return (call("nn.pad", g, [-width for width in pad_width]),)


@op("relax.nn.pad", layout=PADDED, lower=_pad, gradient=_pad_gradient, **_RULES, cost=MOVES)
def pad(
    data: TensorType, pad_width: Ints, pad_mode: str = "constant", pad_value: float = 0.0
) -> TensorType:
    """`data` with more elements before and after each axis: `pad_width` has two for each.

    They are `pad_value`, or by `pad_mode` those at the edge (replicate), mirrored at it (reflect),
    or from the other end (circular). A negative width cuts elements off.
    """
    if pad_mode != "constant" and pad_mode not in _MODES:
        known = ", ".join(["constant", *_MODES])
        raise OpError(f"`pad_mode` must be one of {known}, found {pad_mode}")
    if pad_mode != "constant" and any(_is_negative(w) for w in pad_width):
        raise OpError(f"`pad_width` must not be negative for {pad_mode}, found {list(pad_width)}")
    if data.ndim >= 0 and len(pad_width) != 2 * data.ndim:
        raise OpError(
            f"`pad_width` must have {2 * data.ndim} values, two for each axis, "
            f"found {list(pad_width)}"
        )
    if data.dims is None:
        return data
    dims = [dim + low + high for dim, (low, high) in zip(data.dims, _pairs(pad_width), strict=True)]
    if any(map(_is_negative, dims)):
        raise OpError(
            f"`pad_width` must not cut off more than there is, found {list(pad_width)} for `data` "
            f"of shape {dims_text(data.dims)}"
        )
    return TensorType(dims, data.dtype, vdevice=data.vdevice)


def _shuffled_shape(shape: Any, factor: int) -> tuple[list[Any], list[int], list[Any]]:
    """The shape with the channels taken apart, the order of its axes, and the result's shape."""
    *batch, channels, height, width = shape
    depth = channels // (factor * factor)
    n = len(batch)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    result = [*batch, depth, height * factor, width * factor]
    return [*batch, depth, factor, factor, height, width], order, result


def _pixel_shuffle(data: Any, upscale_factor: int) -> Any:
    apart, order, result = _shuffled_shape(data.shape, upscale_factor)
    return lax.reshape(jnp.transpose(lax.reshape(data, apart), order), result)


def _pixel_shuffle_gradient(g: Expr, y: Expr, data: Expr, upscale_factor: int) -> Expr:
    apart, order, _ = _shuffled_shape(dims_of(data), upscale_factor)
    moved = call("reshape", g, [apart[a] for a in order])
    back = call("permute_dims", moved, [order.index(a) for a in range(len(order))])
    return call("reshape", back, shape_of(data))


@op(
    "relax.nn.pixel_shuffle",
    lower=_pixel_shuffle,
    gradient=_pixel_shuffle_gradient,
    **_RULES,
    cost=MOVES,
)
def pixel_shuffle(data: TensorType, upscale_factor: int) -> TensorType:
    """Channels turned into pixels: (..., C * r * r, H, W) becomes (..., C, H * r, W * r)."""
    if upscale_factor < 1:
        raise OpError(f"`upscale_factor` must be positive, found {upscale_factor}")
    if 0 <= data.ndim < 3:
        raise OpError(f"`data` must have at least 3 dimensions, found {data.ndim}")
    if data.dims is None:
        return data
    channels, square = data.dims[-3], upscale_factor * upscale_factor
    if isinstance(channels, int) and channels % square:
        raise OpError(f"`data` must have a multiple of {square} channels, found {channels}")
    return TensorType(
        _shuffled_shape(data.dims, upscale_factor)[2], data.dtype, vdevice=data.vdevice
    )


@op(
    "relax.nn.batch_flatten",
    layout=RESHAPED,
    lower=lambda data: lax.reshape(data, (data.shape[0], element_count(data.shape[1:]))),
    gradient=lambda g, y, data: call("reshape", g, shape_of(data)),
    **_RULES,
    cost=VIEWS,
)
def batch_flatten(data: TensorType) -> TensorType:
    """All axes but the first made one."""
    if data.ndim in (0, 1):
        raise OpError(f"`data` must have at least 2 dimensions, found {data.ndim}")
    if data.dims is None:
        return TensorType(None, data.dtype, 2, data.vdevice)
    dims = (data.dims[0], element_count(data.dims[1:]))
    return TensorType(dims, data.dtype, vdevice=data.vdevice)
