"""Images in other sizes without aliasing: each axis is multiplied by a matrix of weights."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, np_dtype
from relaxjax.ops.emit import call, dims_of, dtype_of

from .promotion import is_floating
from .resizing import new_sizes
from .table import aten

Filter = Callable[[Any], Any]


def _triangle(x: Any) -> Any:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Any) -> Any:
    """Keys' cubic with the slope that torch has here, which is not that without antialiasing."""
    size, slope = np.abs(x), -0.5
    near = ((slope + 2) * size - (slope + 3)) * size * size + 1
    far = slope * (((size - 5) * size + 8) * size - 4)
    return np.where(size < 1, near, np.where(size < 2, far, 0))


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
        if not is_floating(dtype_of(x)):
            raise ValueError(
                f"an image of {dtype_of(x)} without aliasing, which torch rounds in a way of its "
                "own: give it as floats"
            )
        sizes = new_sizes(x, output_size, scale_factors)
        matrices = []
        for length, wanted, scale in zip(
            dims_of(x)[2:], sizes, scale_factors or (scales_h, scales_w), strict=True
        ):
            if not isinstance(length, int) or not isinstance(wanted, int):
                raise ValueError(
                    f"an axis of {length} becomes one of {wanted} without aliasing, whose weights "
                    "need both lengths: export the model with fixed sizes of its images"
                )
            by = _scale(length, wanted, align_corners, scale)
            array = _weights(length, wanted, by, kernel, reach)
            matrices.append(array.astype(np_dtype(dtype_of(x))))
        rows = call("matmul", Constant(matrices[0]), x)
        return call("matmul", rows, Constant(np.ascontiguousarray(matrices[1].T)))

    return rule


aten("_upsample_bilinear2d_aa.vec", "_upsample_bilinear2d_aa.default")(_antialiased(_triangle, 1))
aten("_upsample_bicubic2d_aa.vec", "_upsample_bicubic2d_aa.default")(_antialiased(_cubic, 2))
