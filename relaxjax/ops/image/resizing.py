"""Resizing of arrays, axis by axis.

Forward, each axis is read at the places that a result is made of, one or two; where they are four,
it is multiplied by a matrix. So it is backward: the adjoint of reading is adding up at places,
which takes four times as long on a CPU.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ops.arrays import cast, jax_dtype, widened
from relaxjax.ops.shapes import element_count

from .interpolation import SLACK, Tap, clamped, positions, rounded, taps

_CROP = "tf_crop_and_resize"
_FEW = 2  # places to read; more of them are a matrix


def axes_of(layout: str) -> list[str]:
    """The axes that a layout names: NCHW4c has the channels' blocks as its last one."""
    axes = re.findall(r"[A-Z]|\d+[a-z]", layout)
    return axes if "".join(axes) == layout else []


def spatial_axes(layout: str, letters: str) -> list[int]:
    return [axes_of(layout).index(letter) for letter in letters]


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
    for number, axis in reversed(list(enumerate(spatial_axes(layout, letters)))):
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


def resize(
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
    matrix = matrix if forward else matrix.T
    before, behind = element_count(x.shape[:axis]), element_count(x.shape[axis + 1 :])
    if axis == x.ndim - 1 or not _is_wide(behind, x.shape[axis]):
        contracted = (((axis,), (1,)), ((), ()))
        return jnp.moveaxis(lax.dot_general(x, matrix, contracted, precision="highest"), -1, axis)
    stack = lax.reshape(x, (before, x.shape[axis], behind))
    matrices = jnp.broadcast_to(matrix, (before, *matrix.shape))
    product = jnp.matmul(matrices, stack, precision="highest")
    return lax.reshape(product, (*x.shape[:axis], matrix.shape[0], *x.shape[axis + 1 :]))


def _is_wide(behind: Any, length: Any) -> bool:
    """Whether a matrix for each stack takes no more memory than the data: then no axis is moved."""
    return isinstance(behind, int) and isinstance(length, int) and behind >= length


def resize_backward(
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
