"""The gradient of a 3x3 kernel by Winograd's sums: 16 products for tiles of 2x2, not 36.

Data is taken in overlapping tiles of 4x4, and the adjoint in tiles of 2x2. Of the elements of each
there are 16 sums, and for each of them one product of matrices goes over all tiles.

The sums are written as elements times columns of the matrices below, added up: XLA has a slower and
larger program for parts that are put side by side.
"""

import math
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ops.nn.layouts import permutation

from .case import WIDE, Case

_OF_DATA = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
_OF_ADJOINT = np.array([[1, 0], [1, 1], [1, -1], [0, -1]])
_TO_KERNEL = np.array([[1, 0.5, 0.5, 0], [0, 0.5, -0.5, 0], [0, 0.5, 0.5, 1]])
_SUMS = 16
_FEWEST = 64  # tiles: the products of fewer are no longer than what is written out for them
_MOST = 2**21  # numbers that the sums of all tiles take


def is_gradient_of_a_small_kernel(case: Case) -> bool:
    """Whether the result is a kernel of 3x3, of images in which tiles fit, channels last."""
    of, counts = case.of, case.counts
    if counts is None or of.groups > 1 or case.windows.counts != (3, 3):
        return False
    size = case.windows.size
    if {*of.strides, *of.dilation} != {1} or any(length % 2 for length in size):
        return False
    last = of.data_layout.endswith("N") and of.kernel_layout.endswith("O")
    wide = case.dtype == case.data.dtype and case.dtype in (jnp.float32, jnp.float64)
    images = case.weight.shape[of.kernel_layout.index("I")]
    if not last or not wide or not isinstance(images, int):
        return False
    tiles = images * counts.places // 4
    held = _SUMS * tiles * (counts.batch + counts.outputs)
    return min(counts.batch, counts.outputs) >= WIDE and tiles >= _FEWEST and held <= _MOST


def kernel_of_tiles(case: Case) -> Any:
    """The gradient, for which the batch is summed over, and the channels of the data are images."""
    of = case.of
    data = jnp.transpose(case.data, permutation(of.data_layout, f"C{of.spatial}N"))
    adjoint = jnp.transpose(case.weight, permutation(of.kernel_layout, f"I{of.spatial}O"))
    padded = replace(case.windows, axes=(1, 2)).padded(data, 0)
    columns, rows = _in_tiles(padded, _OF_DATA), _in_tiles(adjoint, _OF_ADJOINT)
    over_tiles = (((1,), (1,)), ((0,), (0,)))
    sums = lax.dot_general(columns, rows, over_tiles, preferred_element_type=case.dtype)
    to_kernel = jnp.asarray(np.kron(_TO_KERNEL, _TO_KERNEL), case.dtype)
    channels = sums.shape[1:]
    kernel = jnp.matmul(to_kernel, lax.reshape(sums, (_SUMS, math.prod(channels))))
    shaped = lax.reshape(kernel, (3, 3, *channels))
    return jnp.transpose(shaped, permutation(f"{of.spatial}NC", of.out_layout))


def _in_tiles(images: Any, matrix: Any) -> Any:
    """The 16 sums of each tile; tiles begin at every second element.

    Where XLA heeds barriers, what is before them is computed once and not for each element of a
    tile: in jaxlib 0.12, not in 0.10.
    """
    images = lax.optimization_barrier(images)
    for _ in "WH":  # each puts its sums in front, and so the next axis in the place of its own
        count = images.shape[2] - matrix.shape[1] + 1
        starts = range(matrix.shape[1])
        elements = [lax.slice_in_dim(images, start, start + count, 2, 2) for start in starts]
        images = lax.optimization_barrier(_mixed(elements, matrix))
    return lax.reshape(images, (_SUMS, math.prod(images.shape[2:-1]), images.shape[-1]))


def _mixed(arrays: list[Any], matrix: Any) -> Any:
    """A matrix times arrays: for each of its rows one along a new first axis."""
    shape, dtype = (len(matrix), *[1] * arrays[0].ndim), arrays[0].dtype
    columns = [lax.reshape(jnp.asarray(column, dtype), shape) for column in matrix.T]
    return sum(array[None] * column for array, column in zip(arrays, columns, strict=True))
