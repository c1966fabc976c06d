"""Images in other sizes by scales that are not the quotients of these, one axis after another."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, np_dtype
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of

from .promotion import cast, is_floating
from .shapes import transpose

_MEND = "give the sizes instead of the scale, or `recompute_scale_factor=True`"


def check_floats(x: Expr) -> None:
    """Refuse to mix integers: only the nearest of them is one again."""
    if not is_floating(dtype_of(x)):
        raise ValueError(
            f"an image of {dtype_of(x)} in another size, which PyTorch rounds in a way of its own: "
            "give it as floats"
        )


def times_weights(x: Expr, axis: int, weights: Any) -> Expr:
    """What each new element of an axis takes of each old one, a row of weights for each."""
    weights = weights.astype(np_dtype(dtype_of(x)))
    if axis == ndim_of(x) - 2:
        return call("matmul", Constant(weights), x)
    columns = Constant(np.ascontiguousarray(weights.T))
    return transpose(call("matmul", transpose(x, axis, -1), columns), axis, -1)


def _known(length: Dim, wanted: Dim, scale: float | None) -> tuple[int, int, float]:
    """The lengths of an axis before and behind, and how many old elements a new one stands for."""
    if isinstance(length, int) and isinstance(wanted, int):
        return length, wanted, 1 / scale if scale else length / wanted
    raise ValueError(
        f"an axis of {length} times {scale} is {wanted}, which is rounded and needs a length that "
        f"is known: {_MEND}"
    )


def _unclear(length: int, wanted: int, scale: float | None) -> ValueError:
    return ValueError(
        f"an axis of {length} times {scale} is {wanted}, which is rounded, and PyTorch itself does "
        f"not always read the same elements there: {_MEND}"
    )


def nearest_by_scales(
    x: Expr, size: Sequence[Dim], scales: Sequence[float | None], inside: float
) -> Expr:
    """The element that is read where a new one begins, or so far `inside` of it."""
    for axis, given in enumerate(zip(dims_of(x)[2:], size, scales, strict=True), 2):
        length, wanted, step = _known(*given)
        if wanted in (length, 2 * length) and not inside and step != length / wanted:
            raise _unclear(length, wanted, given[2])
        places = (np.arange(wanted) + inside) * np.float32(step)  # as narrow as in torch
        nearest = np.minimum(np.floor(places.astype("float32")), length - 1)
        x = call("take", x, Constant(nearest.astype("int64")), axis)
    return x


def smooth_by_scales(
    x: Expr, size: Sequence[Dim], scales: Sequence[float | None], *, is_cubic: bool
) -> Expr:
    """Neighbours by a line, or by Keys' cubic, beside the ends of the image the last ones again."""
    dtype = dtype_of(x)
    axes = [_known(*given) for given in zip(dims_of(x)[2:], size, scales, strict=True)]
    if is_cubic and all(length == wanted for length, wanted, _ in axes):
        axis = next(axis for axis, (_, _, step) in enumerate(axes) if step != 1)
        raise _unclear(*axes[axis][:2], scales[axis])
    found = cast(x, "float32") if dtype in ("float16", "bfloat16") else x
    for axis, given in enumerate(axes, 2):
        found = times_weights(found, axis, _weights(*given, is_cubic))
    return cast(found, dtype)


def _weights(length: int, wanted: int, step: float, is_cubic: bool) -> Any:
    if not is_cubic and wanted == length:  # whatever the scale is
        return np.eye(length)
    places = (np.arange(wanted) + 0.5) * step - 0.5
    if not is_cubic:
        places = np.clip(places, 0, length - 1)
    first = np.floor(places).astype(int)
    weights = np.zeros((wanted, length))
    for other in (-1, 0, 1, 2) if is_cubic else (0, 1):
        off = first + other - places
        weight = cubic(off, -0.75) if is_cubic else triangle(off)
        np.add.at(weights, (np.arange(wanted), np.clip(first + other, 0, length - 1)), weight)
    return weights


def triangle(x: Any) -> Any:
    return np.maximum(1 - np.abs(x), 0)


def cubic(x: Any, slope: float) -> Any:
    """Keys' cubic, whose slope at 1 torch has in two ways: with antialiasing it is another."""
    size = np.abs(x)
    near = ((slope + 2) * size - (slope + 3)) * size * size + 1
    far = slope * (((size - 5) * size + 8) * size - 4)
    return np.where(size < 1, near, np.where(size < 2, far, 0))
