"""Images: sampled at places, cut into windows and put together again."""

from collections.abc import Sequence

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, np_dtype
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of
from relaxjax.ops.shapes import element_count

from .padding import padded
from .shapes import permute, shaped
from .table import aten

_METHODS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@aten("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    input: Expr, grid: Expr, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Expr:
    ndim = ndim_of(input)
    places = permute(grid, [0, ndim - 1, *range(1, ndim - 1)])
    layout = "NCHW" if ndim == 4 else "NCDHW"
    how = _METHODS[interpolation_mode], layout, _PADDINGS[padding_mode], align_corners
    return call("image.grid_sample", input, places, *how)


@aten("affine_grid_generator.default")
def affine_grid_generator(theta: Expr, size: Sequence[Dim], align_corners: bool) -> Expr:
    found = call("image.affine_grid", theta, list(size[2:]), align_corners)
    return permute(found, [0, *range(2, ndim_of(found)), 1])


@aten("im2col.default")
def im2col(
    self: Expr,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Expr:
    """The windows of images as columns."""
    if ndim_of(self) == 3:
        found = im2col(call("expand_dims", self, 0), kernel_size, dilation, padding, stride)
        return call("squeeze", found, [0])
    (high, wide), (down, right) = kernel_size, dilation
    x = padded(self, [padding[1]] * 2 + [padding[0]] * 2, "constant", 0)
    samples, channels, height, width = dims_of(x)
    begins = [(i * down, j * right) for i in range(high) for j in range(wide)]
    rest = height - down * (high - 1), width - right * (wide - 1)
    parts = [
        call("strided_slice", x, [2, 3], [top, left], [top + rest[0], left + rest[1]], list(stride))
        for top, left in begins
    ]
    windows = call("stack", parts, 2)
    count = element_count(dims_of(windows)[3:])
    return shaped(windows, [samples, channels * len(begins), count])


@aten("col2im.default")
def col2im(
    self: Expr,
    output_size: Sequence[Dim],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Expr:
    """Images as sums of their windows, which stand in columns."""
    if ndim_of(self) == 2:
        more = call("expand_dims", self, 0)
        found = col2im(more, output_size, kernel_size, dilation, padding, stride)
        return call("squeeze", found, [0])
    samples, rows, _ = dims_of(self)
    window = kernel_size[0] * kernel_size[1]
    counts, left_over = [], []
    for axis, size in enumerate(output_size):
        span = size + 2 * padding[axis] - dilation[axis] * (kernel_size[axis] - 1) - 1
        counts.append(span // stride[axis] + 1)
        left_over.append(span % stride[axis])
    if not isinstance(rows, int) or not all(isinstance(one, int) for one in left_over):
        raise ValueError("windows of images of a size that is not known are not put together here")
    x = shaped(self, [samples, rows, *counts])
    kernel = np.tile(np.eye(window).reshape(window, 1, *kernel_size), (rows // window, 1, 1, 1))
    return call(
        "nn.conv2d_transpose",
        x,
        Constant(kernel.astype(np_dtype(dtype_of(x)))),
        strides=list(stride),
        padding=list(padding),
        output_padding=left_over,
        dilation=list(dilation),
        groups=rows // window,
    )
