"""What the operators on images compute, in numpy: one matrix for each axis, made in plain loops."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PLACES: dict[str, Callable[[int, int, int, float, float], float]] = {
    "half_pixel": lambda i, n, m, start, end: (i + 0.5) * m / n - 0.5,
    "align_corners": lambda i, n, m, start, end: i * (m - 1) / max(n - 1, 1),
    "asymmetric": lambda i, n, m, start, end: i * m / n,
    "pytorch_half_pixel": lambda i, n, m, start, end: (i + 0.5) * m / n - 0.5 if n > 1 else 0.0,
    "tf_half_pixel_for_nn": lambda i, n, m, start, end: (i + 0.5) * m / n,
    "tf_crop_and_resize": lambda i, n, m, start, end: (
        (start + i * (end - start) / (n - 1)) * (m - 1) if n > 1 else (start + end) / 2 * (m - 1)
    ),
}
ROUND: dict[str, Callable[[float], float]] = {
    "round": round,
    "floor": lambda x: math.floor(x + 1e-5),
    "ceil": lambda x: math.ceil(x - 1e-5),
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
}


def _keys(distance: float, alpha: float) -> float:
    """The kernel of cubic convolution."""
    x = abs(distance)
    if x <= 1:
        return (alpha + 2) * x**3 - (alpha + 3) * x**2 + 1
    return alpha * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def _matrix(places: Sequence[float], m: int, options: dict[str, Any]) -> Array:
    """What each result takes of each of `m` elements."""
    rows = np.zeros((len(places), m))
    for i, x in enumerate(places):
        match options["method"]:
            case "nearest_neighbor":
                taps = {int(ROUND[options["rounding_method"]](x)): 1.0}
            case "linear":
                taps = {math.floor(x): 1 - x + math.floor(x), math.floor(x) + 1: x - math.floor(x)}
            case _:
                around = range(math.floor(x) - 1, math.floor(x) + 3)
                taps = {j: _keys(x - j, options["cubic_alpha"]) for j in around}
        if options["cubic_exclude"] and options["method"] == "cubic":
            taps = {j: weight for j, weight in taps.items() if 0 <= j < m}
            taps = {j: weight / sum(taps.values()) for j, weight in taps.items()}
        for j, weight in taps.items():
            rows[i, min(max(j, 0), m - 1)] += weight
    return rows


def resize(letters: str, rounding_method: str) -> Callable[..., Array]:
    defaults: dict[str, Any] = {
        "method": "linear",
        "coordinate_transformation_mode": "half_pixel",
        "rounding_method": rounding_method,
        "cubic_alpha": -0.75,
        "cubic_exclude": 0,
        "extrapolation_value": 0.0,
    }

    def run(
        data: Array,
        size: Sequence[int],
        roi: Sequence[float] = (0.0,),
        layout: str = f"NC{letters}",
        out_dtype: str | None = None,
        **given: Any,
    ) -> Array:
        options = defaults | given
        mode, count = options["coordinate_transformation_mode"], len(letters)
        options["rounding_method"] = options["rounding_method"] or (
            "round" if mode == "align_corners" else "floor"
        )
        sizes = tuple(size) * count if len(size) == 1 else tuple(size)
        bounds = tuple(roi) * (2 * count) if len(roi) == 1 else roi
        out, beyond = data.astype("float64"), np.zeros((1,) * data.ndim, bool)
        for number, n in enumerate(sizes):
            axis = layout.index(letters[number])
            m = data.shape[axis]
            ends = bounds[number], bounds[number + count]
            places = [PLACES[mode](i, n, m, *ends) for i in range(n)]
            out = np.moveaxis(np.tensordot(out, _matrix(places, m, options), (axis, 1)), -1, axis)
            outside = np.array([x < 0 or x > m - 1 for x in places])
            beyond = beyond | outside.reshape([-1 if a == axis else 1 for a in range(data.ndim)])
        if mode == "tf_crop_and_resize":
            out = np.where(beyond, options["extrapolation_value"], out)
        whole = data.dtype.kind in "iu" and not out_dtype
        return np.trunc(np.round(out, 4)) if whole else out  # cut off, but for errors of rounding

    return run


resize2d, resize3d = resize("HW", "round"), resize("DHW", "")


def affine_grid(maps: Array, size: Sequence[int], align_corners: bool = True) -> Array:
    size = tuple(size) * 2 if len(size) == 1 else tuple(size)
    out = np.zeros((len(maps), len(size), *size))
    for place in np.ndindex(*size):
        point = [
            (2 * i - n + 1) / (max(n - 1, 1) if align_corners else n)
            for i, n in zip(place, size, strict=True)
        ]
        out[(slice(None), slice(None), *place)] = maps @ np.array([*point[::-1], 1])
    return out


def _padded(j: float, m: int, mode: str, align_corners: bool) -> float:
    if mode == "reflection":
        low, high = (0, m - 1) if align_corners else (-0.5, m - 0.5)
        while low < high and not low <= j <= high:  # the mirrors of one element are the same
            j = 2 * low - j if j < low else 2 * high - j
    return j if mode == "zeros" else min(max(j, 0), m - 1)


def _axis_row(g: float, m: int, method: str, mode: str, align_corners: bool) -> Array:
    """What a place along one axis takes of each of `m` elements."""
    x = (g + 1) * (m - 1) / 2 if align_corners else ((g + 1) * m - 1) / 2
    if method == "bicubic":
        taps = [(math.floor(x) + k, _keys(x - math.floor(x) - k, -0.75)) for k in range(-1, 3)]
        taps = [(round(_padded(j, m, mode, align_corners)), weight) for j, weight in taps]
    else:
        x = _padded(x, m, mode, align_corners)
        taps = [(math.floor(x), 1 - x + math.floor(x)), (math.floor(x) + 1, x - math.floor(x))]
        taps = [(round(x), 1.0)] if method == "nearest" else taps
    row = np.zeros(m)
    for j, weight in taps:
        if 0 <= j < m:
            row[j] += weight
    return row


def grid_sample(
    data: Array,
    grid: Array,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    data = np.moveaxis(data, layout.index("C"), 1).astype("float64")
    out = np.zeros((*data.shape[:2], *grid.shape[2:]))
    for image, *place in np.ndindex(data.shape[0], *grid.shape[2:]):
        value = data[image]
        for g, m in zip(grid[(image, slice(None), *place)][::-1], data.shape[2:], strict=True):
            row = _axis_row(g, m, method, padding_mode, align_corners)
            value = np.tensordot(value, row, (1, 0))
        out[(image, slice(None), *place)] = value
    return np.moveaxis(out, 1, layout.index("C"))


IMAGE: dict[str, Callable[..., Any]] = {
    "relax.image.resize2d": resize2d,
    "relax.image.resize3d": resize3d,
    "relax.image.affine_grid": affine_grid,
    "relax.image.grid_sample": grid_sample,
}
