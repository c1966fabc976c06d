"""Two kernels in Pallas: of what is computed element by element, and of matrix products."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

# The sides of a block. GPUs want powers of two; bigger ones do not fit beside each other there.
ROWS, COLUMNS = 32, 128
MATMUL_BLOCK = 64


def elementwise_kernel(
    body: Callable[..., Sequence[Any]],
    arrays: Sequence[Any],
    shape: Sequence[int],
    dtypes: Sequence[Any],
    interpret: bool,
) -> list[Any]:
    """The results of `body`, a function of blocks, for arrays that broadcast to `shape`.

    All is seen as matrices: the last dimension, and the others as one. Of an array that is constant
    along one of those, each block holds one row or column only.
    """
    from jax.experimental import pallas as pl

    if 0 in shape:
        return [jnp.zeros(shape, dtype) for dtype in dtypes]
    rows, columns = prod(shape[:-1]), (shape[-1] if shape else 1)
    block = min(ROWS, _power_of_two(rows)), min(COLUMNS, _power_of_two(columns))
    matrices = [_matrix(array, shape) for array in arrays]
    padded = [_padded(matrix, _sides(matrix, block)) for matrix in matrices]
    grid = -(-rows // block[0]), -(-columns // block[1])

    def spec(matrix: Any) -> Any:
        tall, wide = matrix.shape[0] == rows, matrix.shape[1] == columns
        sides = block[0] if tall else 1, block[1] if wide else 1
        return pl.BlockSpec(sides, lambda i, j: (i if tall else 0, j if wide else 0))

    def kernel(*refs: Any) -> None:
        inputs, outputs = refs[: len(arrays)], refs[len(arrays) :]
        for out, value in zip(outputs, body(*(ref[...] for ref in inputs)), strict=True):
            out[...] = jnp.broadcast_to(value, block).astype(out.dtype)

    total = grid[0] * block[0], grid[1] * block[1]
    results = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(total, dtype) for dtype in dtypes],
        grid=grid,
        in_specs=list(map(spec, matrices)),
        out_specs=[pl.BlockSpec(block, lambda i, j: (i, j)) for _ in dtypes],
        interpret=interpret,
    )(*padded)
    return [result[:rows, :columns].reshape(shape) for result in results]


def matmul_kernel(
    x: Any,
    weight: Any,
    finish: Callable[..., Any],
    more: Sequence[Any],
    dtype: Any,
    interpret: bool,
) -> Any:
    """`finish(x @ weight, *more)` for a matrix `weight`; `more` are rows, one for each column.

    Products are summed in float32 at least; `finish` sees a block of them.
    """
    from jax.experimental import pallas as pl

    lead, inner, columns = x.shape[:-1], x.shape[-1], weight.shape[-1]
    rows = prod(lead)
    if 0 in (rows, columns):
        return jnp.zeros((*lead, columns), dtype)
    side = MATMUL_BLOCK
    left = _padded(x.reshape(rows, inner), (side, side))
    right = _padded(weight, (side, side))
    beside = [_padded(row.reshape(1, columns), (1, side)) for row in more]
    accumulator = x.dtype if x.dtype.itemsize >= 4 else jnp.float32

    def kernel(left_ref: Any, right_ref: Any, *refs: Any) -> None:
        *rows_of_more, out = refs

        def add(index: Any, total: Any) -> Any:
            part = pl.ds(index * side, side)
            return total + jnp.dot(
                left_ref[:, part],
                right_ref[part, :],
                precision=lax.Precision.HIGHEST,
                preferred_element_type=accumulator,
            )

        start = jnp.zeros((side, side), accumulator)
        product = lax.fori_loop(0, left.shape[1] // side, add, start)
        out[...] = finish(product.astype(dtype), *(ref[...] for ref in rows_of_more)).astype(dtype)

    result = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((left.shape[0], right.shape[1]), dtype),
        grid=(left.shape[0] // side, right.shape[1] // side),
        in_specs=[
            pl.BlockSpec((side, left.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((right.shape[0], side), lambda i, j: (0, j)),
            *(pl.BlockSpec((1, side), lambda i, j: (0, j)) for _ in beside),
        ],
        out_specs=pl.BlockSpec((side, side), lambda i, j: (i, j)),
        interpret=interpret,
    )(left, right, *beside)
    return result[:rows, :columns].reshape(*lead, columns)


def _matrix(array: Any, shape: Sequence[int]) -> Any:
    """An array that broadcasts to `shape` as a matrix with a side of 1 where it is constant."""
    dims = (1,) * (len(shape) - array.ndim) + array.shape
    lead = prod(dims[:-1])
    if dims[:-1] != tuple(shape[:-1]) and lead > 1:
        dims = (*shape[:-1], dims[-1])
        array, lead = jnp.broadcast_to(array, dims), prod(shape[:-1])
    return array.reshape(lead, dims[-1] if dims else 1)


def _sides(matrix: Any, block: Sequence[int]) -> list[int]:
    """The sides of a matrix's blocks: 1 where that is constant."""
    return [1 if size == 1 else side for size, side in zip(matrix.shape, block, strict=True)]


def _padded(matrix: Any, block: Sequence[int]) -> Any:
    """A matrix filled up with zeros to whole blocks, one of them at least."""
    pairs = zip(matrix.shape, block, strict=True)
    pads = [(0, max(1, -(-size // side)) * side - size) for size, side in pairs]
    return jnp.pad(matrix, pads) if any(high for _, high in pads) else matrix


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
