"""Dense layers whose weight is mostly zero, kept as the blocks that are not."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import widened
from relaxjax.ops.backward import backward_of, backward_rule
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.index import require_integers
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import common_dtype, require_ndim

# Products of blocks are faster than products of single elements from this many elements on.
_LARGE_BLOCK = 256


def _by_blocks(data: Any, weight_data: Any, weight_indices: Any, weight_indptr: Any) -> Any:
    """Each block times its part of the data; the products of a row of blocks are summed."""
    count, rows, columns = weight_data.shape
    height = weight_indptr.shape[0] - 1
    samples = math.prod(data.shape[:-1])
    parts = data.reshape(samples, data.shape[-1] // columns, columns).swapaxes(0, 1)
    products = jnp.einsum("nbc,nrc->nbr", parts[weight_indices], weight_data)
    owner = jnp.repeat(jnp.arange(height), jnp.diff(weight_indptr), total_repeat_length=count)
    total = jax.ops.segment_sum(products, owner, height, indices_are_sorted=True)
    return total.swapaxes(0, 1).reshape(*data.shape[:-1], height * rows)


def _by_elements(data: Any, weight_data: Any, weight_indices: Any, weight_indptr: Any) -> Any:
    """The same with the blocks taken apart, as a matrix of compressed rows, of 32 bits or more."""
    from jax.experimental import sparse  # which takes a while to import

    count, rows, columns = weight_data.shape
    height = weight_indptr.shape[0] - 1
    lengths = jnp.diff(weight_indptr)
    owner = jnp.repeat(jnp.arange(height), lengths, total_repeat_length=count)
    start = weight_indptr[:-1][owner]
    inside = jnp.arange(count, dtype=start.dtype) - start
    first = start * rows + inside  # in blocks' rows: where the first row of each block goes
    row = jnp.arange(rows, dtype=start.dtype)
    place = first[:, None] + row[None, :] * lengths[owner][:, None]
    inner = jnp.arange(columns, dtype=weight_indices.dtype)
    column = weight_indices[:, None] * columns + inner[None, :]
    values = jnp.zeros((count * rows, columns), weight_data.dtype).at[place].set(weight_data)
    spread = jnp.broadcast_to(column[:, None, :], weight_data.shape)
    indices = jnp.zeros((count * rows, columns), column.dtype).at[place].set(spread)
    ends = jnp.cumsum(jnp.repeat(lengths * columns, rows), dtype=weight_indptr.dtype)
    starts = jnp.concatenate([jnp.zeros(1, ends.dtype), ends])
    shape = (height * rows, data.shape[-1])
    matrix = sparse.BCSR((widened(values).reshape(-1), indices.reshape(-1), starts), shape=shape)
    flat = widened(data).reshape(-1, data.shape[-1])
    product = (matrix @ flat.T).T.reshape(*data.shape[:-1], height * rows)
    return lax.convert_element_type(product, data.dtype)


def _sparse_dense(data: Any, weight_data: Any, weight_indices: Any, weight_indptr: Any) -> Any:
    large = weight_data.shape[1] * weight_data.shape[2] >= _LARGE_BLOCK
    form = _by_blocks if large or weight_data.shape[0] == 0 else _by_elements
    return form(data, weight_data, weight_indices, weight_indptr)


def _backward(
    output_grad: Any, data: Any, weight_data: Any, weight_indices: Any, weight_indptr: Any
) -> Any:
    """The adjoints of the data and of the blocks; what is zero in the weight stays so."""

    def product(x: Any, blocks: Any) -> Any:
        return _by_blocks(x, blocks, weight_indices, weight_indptr)

    return jax.vjp(product, data, weight_data)[1](lax.convert_element_type(output_grad, data.dtype))


@op(
    "relax.nn.sparse_dense",
    lower=_sparse_dense,
    gradient=backward_rule("relax.nn.sparse_dense", "data", "weight_data"),
    cost=LOWERED,
)
def sparse_dense(
    data: TensorType, weight_data: TensorType, weight_indices: TensorType, weight_indptr: TensorType
) -> TensorType:
    """Product with the transpose of a block-sparse matrix: y = x @ w^T.

    `weight_data` holds the blocks of `w` that are not zero, one row of blocks after another,
    `weight_indices` the column of each, in blocks, and `weight_indptr` where each row begins, with
    the end of the last.
    """
    dtype = common_dtype(data=data, weight_data=weight_data)
    require_integers(weight_indices, "weight_indices")
    require_integers(weight_indptr, "weight_indptr")
    parts = {"weight_data": (weight_data, 3), "weight_indices": (weight_indices, 1)}
    for name, (ty, ndim) in {**parts, "weight_indptr": (weight_indptr, 1)}.items():
        require_ndim(name, ty, ndim)
    if data.ndim == 0:
        raise OpError("`data` must have at least 1 dimension, found a scalar")
    blocks, starts = weight_data.dims, weight_indptr.dims
    if data.dims is None or blocks is None or starts is None:
        return TensorType(None, dtype, data.ndim, data.vdevice)
    if isinstance(starts[0], int) and starts[0] < 2:
        raise OpError(
            "`weight_indptr` must have an element for each row of blocks, and one more, "
            f"found {starts[0]}"
        )
    columns = (weight_indices.dims or blocks)[0]
    if can_prove_different(columns, blocks[0]):
        raise OpError(
            f"`weight_indices` must have {blocks[0]} elements, one for each block of "
            f"`weight_data`, found {columns}"
        )
    if 0 in blocks[1:]:
        raise OpError(f"blocks must have elements, but those of `weight_data` are {blocks[1:]}")
    if can_prove_different(data.dims[-1] % blocks[2], 0):
        raise OpError(
            f"the last dimension of `data` must be a whole number of blocks of {blocks[2]} columns,"
            f" found {data.dims[-1]}"
        )
    return TensorType((*data.dims[:-1], (starts[0] - 1) * blocks[1]), dtype, vdevice=data.vdevice)


sparse_dense_backward = backward_of(sparse_dense, "data", "weight_data", lower=_backward)
