"""Resizing of images along their two or three spatial axes.

Every method works axis by axis. Forward, each axis is read at the places that a result is made of,
one or two; where they are four, it is multiplied by a matrix. So it is backward: the adjoint of
reading is adding up at places, which takes four times as long on a CPU.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.types import ShapeType, TensorType
from relaxjax.ops.arrays import cast, jax_dtype, widened
from relaxjax.ops.backward import backward_of, backward_rule
from relaxjax.ops.declare import DType, Floats, OpError, op
from relaxjax.ops.emit import call, dtype_of
from relaxjax.ops.lettered_layouts import lettered
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import require_ndim, require_sizes

from .interpolation import (
    METHODS,
    ROUNDINGS,
    SLACK,
    TRANSFORMATIONS,
    Tap,
    check_choice,
    clamped,
    positions,
    rounded,
    taps,
)

_CROP = "tf_crop_and_resize"
_FEW = 2  # places to read; more of them are a matrix


def _axes(layout: str) -> list[str]:
    """The axes that a layout names: NCHW4c has the channels' blocks as its last one."""
    axes = re.findall(r"[A-Z]|\d+[a-z]", layout)
    return axes if "".join(axes) == layout else []


def _spatial_axes(layout: str, letters: str) -> list[int]:
    return [_axes(layout).index(letter) for letter in letters]


def _check_layout(layout: str, letters: str) -> None:
    axes = _axes(layout)
    whole = sorted(axis for axis in axes if axis.isalpha())
    blocks = {axis[-1] for axis in axes if not axis.isalpha()}
    if whole != sorted("NC" + letters) or not blocks <= {"n", "c"}:
        raise OpError(f'`layout` must name the axes of "NC{letters}", found "{layout}"')


def _complete(count: int) -> Callable[..., Mapping[str, Any]]:
    """One size for all axes, and one bound for all of a region, where one is given."""

    def complete(size: Expr, roi: tuple[float, ...] | None, **rest: Any) -> Mapping[str, Any]:
        bounds = (0.0,) if roi is None else roi
        bounds = bounds * (2 * count) if len(bounds) == 1 else bounds
        if len(bounds) != 2 * count:
            raise OpError(f"`roi` must be 1 or {2 * count} numbers, found {list(bounds)}")
        if isinstance(size, ShapeExpr) and len(size.values) == 1:
            size = ShapeExpr(size.values * count)
        return {"roi": bounds, "size": size}

    return complete


def _axis_taps(
    size: Any,
    length: Any,
    bounds: Sequence[float],
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: int,
) -> tuple[list[Tap], Any]:
    """What each element along one axis is made of, and where it lies."""
    places = positions(size, length, coordinate_transformation_mode, *bounds)
    if method.lower() != "nearest_neighbor":
        return taps(places, length, method.lower(), cubic_alpha, cubic_exclude), places
    nearest = rounded(places, rounding_method, coordinate_transformation_mode)
    return [Tap(clamped(nearest, length), None)], places


def _each_axis(
    lengths: Sequence[Any], letters: str, size: Any, roi: Any, layout: str, **options: Any
) -> Iterator[tuple[int, list[Tap], Any]]:
    """For each spatial axis, the last one first: its number, its taps, and where results lie."""
    count = len(letters)
    for number, axis in reversed(list(enumerate(_spatial_axes(layout, letters)))):
        bounds = (roi[number], roi[number + count])
        yield axis, *_axis_taps(size[number], lengths[axis], bounds, **options)


def _along(values: Any, axis: int, ndim: int) -> Any:
    """A vector along one axis of a tensor."""
    return lax.expand_dims(jnp.asarray(values), [a for a in range(ndim) if a != axis])


def _outside(places: Any, length: Any) -> Any:
    return (places < 0) | (places > length - 1)


def _read(x: Any, axis: int, found: Sequence[Tap]) -> Any:
    """The sum of what the taps read along `axis`."""
    parts = []
    for places, weights in found:
        if isinstance(weights, np.ndarray) and weights.size and not weights.any():
            continue
        whole = isinstance(places, np.ndarray) and np.array_equal(places, np.arange(x.shape[axis]))
        part = x if whole else jnp.take(x, jnp.asarray(places), axis, mode="clip")
        scale = None if weights is None else _along(weights, axis, x.ndim).astype(x.dtype)
        parts.append(part if scale is None else part * scale)
    return functools.reduce(jnp.add, parts)


def _resize(
    letters: str,
    data: Any,
    size: Any,
    extrapolation_value: float,
    out_dtype: str | None,
    **options: Any,
) -> Any:
    nearest = options["method"].lower() == "nearest_neighbor"
    out = data if nearest else widened(_as_floating(data))
    beyond = []
    for axis, found, places in _each_axis(data.shape, letters, size, **options):
        few = len(found) <= _FEW
        out = _read(out, axis, found) if few else _product(out, axis, found, forward=True)
        beyond.append(_along(_outside(places, data.shape[axis]), axis, data.ndim))
    if options["coordinate_transformation_mode"] == _CROP:
        fill = jnp.asarray(extrapolation_value).astype(out.dtype)
        out = jnp.where(functools.reduce(jnp.logical_or, beyond), fill, out)
    dtype = jax_dtype(out_dtype) if out_dtype else data.dtype
    return cast(out if jnp.issubdtype(dtype, jnp.floating) else _unrounded(out), dtype)


def _as_floating(x: Any) -> Any:
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)


def _unrounded(x: Any) -> Any:
    """Floats that will be cut off to integers: those which are whole but for rounding made so."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    return x + jnp.sign(x) * (SLACK * (1 + jnp.abs(x)))


def _matrix(found: Sequence[Tap], length: Any, dtype: Any) -> Any:
    """The matrix of an interpolation: results by elements."""
    total: Any = None
    for places, weights in found:
        rows = jnp.expand_dims(jnp.asarray(places), 1)
        hit = rows == lax.broadcasted_iota(rows.dtype, (rows.shape[0], length), 1)
        share = hit.astype(dtype)
        if weights is not None:
            share = share * jnp.expand_dims(jnp.asarray(weights).astype(dtype), 1)
        total = share if total is None else total + share
    return total


def _product(
    x: Any, axis: int, found: Sequence[Tap], forward: bool, length: Any | None = None
) -> Any:
    """One axis times the matrix of an interpolation, or times its transpose."""
    matrix = _matrix(found, x.shape[axis] if length is None else length, x.dtype)
    contracted = (((axis,), (1 if forward else 0,)), ((), ()))
    return jnp.moveaxis(lax.dot_general(x, matrix, contracted, precision="highest"), -1, axis)


def _resize_backward(
    letters: str,
    output_grad: Any,
    data: Any,
    size: Any,
    extrapolation_value: float,
    out_dtype: str | None,
    **options: Any,
) -> Any:
    """The transposed matrices, one axis after the other."""
    out = widened(output_grad)
    steps = list(_each_axis(data.shape, letters, size, **options))
    if options["coordinate_transformation_mode"] == _CROP:
        for axis, _, places in steps:
            beyond = _along(_outside(places, data.shape[axis]), axis, data.ndim)
            out = jnp.where(beyond, jnp.zeros_like(out), out)
    for axis, found, _ in steps:
        out = _product(out, axis, found, forward=False, length=data.shape[axis])
    return cast(out, data.dtype)


def _resize_backward_gradient(name: str) -> Callable[..., tuple[Expr | None, ...]]:
    """It is linear in `output_grad`, and resizing itself, with nothing beyond, is its transpose."""

    def gradient(
        g: Expr, y: Expr, output_grad: Expr, data: Expr, size: Expr, **options: Any
    ) -> tuple[Expr | None, ...]:
        rest = {**options, "extrapolation_value": 0.0, "out_dtype": dtype_of(output_grad)}
        return call(name, g, size, **rest), None, None

    return gradient


def _resized_type(
    data: TensorType,
    size: ShapeType,
    letters: str,
    layout: str,
    out_dtype: str | None,
    **choices: str,
) -> TensorType:
    _check_layout(layout, letters)
    check_choice("method", choices["method"].lower(), METHODS)
    check_choice("coordinate_transformation_mode", choices["transformation"], TRANSFORMATIONS)
    check_choice("rounding_method", choices["rounding"], ROUNDINGS)
    require_ndim("data", data, len(_axes(layout)))
    if size.ndim not in (-1, len(letters)):
        raise OpError(f"`size` must have {len(letters)} dimensions, found {size.ndim}")
    require_sizes("size", size.values or ())
    dtype = out_dtype or data.dtype
    if data.dims is None or size.values is None:
        return TensorType(None, dtype, len(_axes(layout)), data.vdevice)
    dims = list(data.dims)
    for axis, dim in zip(_spatial_axes(layout, letters), size.values, strict=True):
        dims[axis] = dim
    return TensorType(dims, dtype, vdevice=data.vdevice)


@op(
    "relax.image.resize2d",
    layout=lettered(),
    complete=_complete(2),
    lower=functools.partial(_resize, "HW"),
    gradient=backward_rule("relax.image.resize2d", "data"),
    precision="follow",
    fusion="injective",
    cost=LOWERED,
)
def resize2d(
    data: TensorType,
    size: ShapeType,
    roi: Floats | None = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
) -> TensorType:
    """Images of another height and width: each element is interpolated at a place of `data`.

    `method` is linear, cubic (with `cubic_alpha`, and `cubic_exclude` to leave out what is beyond
    the borders) or nearest_neighbor (with `rounding_method`: round, a half to the even one; floor,
    ceil, round_prefer_floor, round_prefer_ceil). `coordinate_transformation_mode` says which
    place belongs to element i, of n, on an axis of length m: half_pixel (i + 0.5) * m / n - 0.5,
    pytorch_half_pixel the same but 0 for n = 1, tf_half_pixel_for_nn (i + 0.5) * m / n,
    asymmetric i * m / n, align_corners i * (m - 1) / (n - 1), and tf_crop_and_resize the same
    within the region `roi` = (start_h, start_w, end_h, end_w), where what is outside of `data`
    becomes `extrapolation_value`.
    """
    return _resized_type(
        data,
        size,
        "HW",
        layout,
        out_dtype,
        method=method,
        transformation=coordinate_transformation_mode,
        rounding=rounding_method,
    )


@op(
    "relax.image.resize3d",
    layout=lettered(),
    complete=_complete(3),
    lower=functools.partial(_resize, "DHW"),
    gradient=backward_rule("relax.image.resize3d", "data"),
    precision="follow",
    fusion="injective",
    cost=LOWERED,
)
def resize3d(
    data: TensorType,
    size: ShapeType,
    roi: Floats | None = None,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
) -> TensorType:
    """As resize2d, of depth, height and width; `roi` is the three starts, then the three ends.

    Without a `rounding_method`, the nearest neighbour is the one before a place, but for
    align_corners the rounded one.
    """
    return _resized_type(
        data,
        size,
        "DHW",
        layout,
        out_dtype,
        method=method,
        transformation=coordinate_transformation_mode,
        rounding=rounding_method,
    )


resize2d_backward, resize3d_backward = (
    backward_of(
        forward,
        "data",
        lower=functools.partial(_resize_backward, letters),
        gradient=_resize_backward_gradient(forward.name.removeprefix("relax.")),
        layout=lettered(data=1, like_result=0),
    )
    for forward, letters in ((resize2d, "HW"), (resize3d, "DHW"))
)
