"""Interpolation along one axis: where results lie on it, and which elements they are made of."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from relaxjax.ops.arrays import jax_dtype
from relaxjax.ops.declare import OpError

METHODS = ("linear", "nearest_neighbor", "cubic")
TRANSFORMATIONS = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
ROUNDINGS = ("", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
# What rounding up or down forgives, so that places which are whole but for rounding stay.
SLACK = 1e-5


class Tap(NamedTuple):
    """For each element of a result: one of the elements it is made of, and how much of it."""

    places: Any
    weights: Any


def check_choice(name: str, choice: str, choices: Sequence[str]) -> None:
    """Anything but one of the choices is an error."""
    if choice not in choices:
        listed = ", ".join(f'"{item}"' for item in choices)
        raise OpError(f'`{name}` must be one of {listed}, found "{choice}"')


def positions(size: Any, length: Any, transformation: str, start: float, end: float) -> Any:
    """Where the `size` elements of a result lie on an axis of a given length.

    Known sizes are worked out here, by numpy and in float64; symbolic ones by the program, which
    has float32 where JAX has no 64 bits.
    """
    known = isinstance(size, int) and isinstance(length, int)
    xp: Any = np if known else jnp
    dtype = np.float64 if known else jax_dtype("float64")
    new, old = (xp.asarray(value).astype(dtype) for value in (size, length))
    x = xp.arange(size).astype(dtype)
    half_pixel = (x + 0.5) * old / new - 0.5
    gaps = xp.maximum(new - 1, 1)
    match transformation:
        case "half_pixel":
            return half_pixel
        case "align_corners":
            return x * (old - 1) / gaps
        case "asymmetric":
            return x * old / new
        case "pytorch_half_pixel":
            return xp.where(new > 1, half_pixel, xp.zeros_like(x))
        case "tf_half_pixel_for_nn":
            return half_pixel + 0.5
    crop = start * (old - 1) + x * (end - start) * (old - 1) / gaps
    return xp.where(new > 1, crop, 0.5 * (start + end) * (old - 1) + xp.zeros_like(x))


def rounded(places: Any, rounding: str, transformation: str) -> Any:
    """Places made whole; without a `rounding`, as is usual for the transformation."""
    xp: Any = np if isinstance(places, np.ndarray) else jnp
    match rounding or ("round" if transformation == "align_corners" else "floor"):
        case "round":
            return xp.round(places)
        case "round_prefer_floor":
            return xp.ceil(places - 0.5)
        case "round_prefer_ceil":
            return xp.floor(places + 0.5)
        case "floor":
            return xp.floor(places + SLACK)
    return xp.ceil(places - SLACK)


def linear_weights(part: Any) -> list[Any]:
    """The weights of the places before and after a place, `part` of the way between them."""
    return [1 - part, part]


def cubic_weights(part: Any, alpha: float) -> list[Any]:
    """The weights of two places before and two after, by the cubic convolution of Keys."""
    square, cube = part * part, part * part * part
    return [
        alpha * (cube - 2 * square + part),
        (alpha + 2) * cube - (alpha + 3) * square + 1,
        -(alpha + 2) * cube + (2 * alpha + 3) * square - alpha * part,
        alpha * (square - cube),
    ]


def taps(places: Any, length: Any, method: str, alpha: float, exclude: int) -> list[Tap]:
    """The elements that an interpolation at `places` takes; beyond the ends the border continues.

    With `exclude`, what is beyond the ends does not count for a cubic one.
    """
    xp: Any = np if isinstance(places, np.ndarray) else jnp
    floor = xp.floor(places)
    part = places - floor
    linear = method == "linear"
    weights = linear_weights(part) if linear else cubic_weights(part, alpha)
    spots = [floor + number - (0 if linear else 1) for number in range(len(weights))]
    if exclude and not linear:
        inside = [(spot >= 0) & (spot < length) for spot in spots]
        weights = [xp.where(i, w, xp.zeros_like(w)) for i, w in zip(inside, weights, strict=True)]
        total = sum(weights)
        weights = [weight / total for weight in weights]
    return [Tap(clamped(spot, length), weight) for spot, weight in zip(spots, weights, strict=True)]


def clamped(places: Any, length: Any) -> Any:
    """Whole places as indices, moved inside an axis."""
    xp: Any = np if isinstance(places, np.ndarray) else jnp
    return xp.clip(places.astype(np.int32), 0, length - 1)
