"""Images in other sizes without aliasing: each axis is multiplied by a matrix of weights."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import dims_of

from .resizing import new_sizes
from .scaled_axes import check_floats, cubic, times_weights, triangle
from .table import aten

Filter = Callable[[Any], Any]


def _weights(length: int, wanted: int, scale: float, kernel: Filter, reach: int) -> Any:
    """What each new element takes of each old one: a filter as wide as the image shrinks."""
    wide = max(scale, 1.0)
    centres = scale * (np.arange(wanted) + 0.5)
    low = np.maximum((centres - reach * wide + 0.5).astype(int), 0)
    high = np.minimum((centres + reach * wide + 0.5).astype(int), length)
    places = np.arange(length)
    is_near = (places >= low[:, None]) & (places < high[:, None])
    found = np.where(is_near, kernel((places - centres[:, None] + 0.5) / wide), 0)
    total = found.sum(1, keepdims=True)
    return found / np.where(total == 0, 1, total)


def _scale(length: int, wanted: int, by_corners: bool, given: float | None) -> float:
    """How many old elements a new one stands for."""
    if by_corners:
        return (length - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / given if given else length / wanted


def _antialiased(kernel: Filter, reach: int) -> Callable[..., Expr]:
    def rule(
        self: Expr | None = None,
        output_size: Sequence[Dim] | None = None,
        align_corners: bool = False,
        scale_factors: Sequence[float] | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
        input: Expr | None = None,  # torch's name
    ) -> Expr:
        x = input if self is None else self
        assert x is not None
        check_floats(x)
        sizes = new_sizes(x, output_size, scale_factors)
        given = zip(dims_of(x)[2:], sizes, scale_factors or (scales_h, scales_w), strict=True)
        for axis, (length, wanted, scale) in enumerate(given, 2):
            if not isinstance(length, int) or not isinstance(wanted, int):
                raise ValueError(
                    f"an axis of {length} becomes one of {wanted} without aliasing, whose weights "
                    "need both lengths: export the model with fixed sizes of its images"
                )
            by = _scale(length, wanted, align_corners, scale)
            x = times_weights(x, axis, _weights(length, wanted, by, kernel, reach))
        return x

    return rule


aten("_upsample_bilinear2d_aa.vec", "_upsample_bilinear2d_aa.default")(_antialiased(triangle, 1))
aten("_upsample_bicubic2d_aa.vec", "_upsample_bicubic2d_aa.default")(
    _antialiased(partial(cubic, slope=-0.5), 2)
)
