"""What slices, gathers, scatters and products compute, in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np

COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "mean": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "update": lambda old, new: new,
}


def _einsum(tensors: Any, text: str) -> Any:
    """numpy has no result that sums over an ellipsis."""
    left, arrow, right = text.partition("->")
    if not arrow or "..." not in left or "..." in right:
        return np.einsum(text, *tensors)
    whole = np.einsum(f"{left}->...{right}", *tensors)
    return whole.sum(axis=tuple(range(whole.ndim - len(right))))


def strided_slice(
    x: Any, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> Any:
    cuts = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        step = 1 if strides is None else strides[i]
        stop = None if step < 0 and end[i] < -x.shape[axis] else end[i]
        cuts[axis] = slice(begin[i], stop, step)
    return x[tuple(cuts)]


def dynamic_strided_slice(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    return strided_slice(x, range(x.ndim), *(places.tolist() for places in (begin, end, strides)))


def slice_scatter(x: Any, src: Any, start: int, end: int, step: int, axis: int = 0) -> Any:
    y = x.copy()
    np.moveaxis(y, axis, 0)[start:end:step] = np.moveaxis(src, axis, 0)
    return y


def take(x: Any, indices: Any, axis: int | None = None, mode: str = "fast") -> Any:
    axis, indices = axis or 0, np.asarray(indices)
    length = x.shape[axis]
    if mode == "nan":
        inside = (indices >= 0) & (indices < length)
        y = np.take(x, np.where(inside, indices, 0), axis)
        wide = inside.reshape(inside.shape + (1,) * (x.ndim - axis % x.ndim - 1))
        return np.where(wide, y, np.nan)
    outside: Any = "raise" if mode == "fast" else mode
    return np.take(x, indices, axis, mode=outside)


def gather_elements(x: Any, i: Any, axis: int = 0) -> Any:
    y = np.zeros(i.shape, x.dtype)
    for place in np.ndindex(i.shape):
        at = list(place)
        at[axis] = i[place]
        y[place] = x[tuple(at)]
    return y


def scatter_elements(x: Any, i: Any, u: Any, axis: int = 0, reduction: str = "update") -> Any:
    y, counts = x.copy(), np.ones(x.shape)
    for place in np.ndindex(i.shape):
        at = list(place)
        at[axis] = i[place]
        y[tuple(at)] = COMBINED[reduction](y[tuple(at)], u[place])
        counts[tuple(at)] += 1
    return y / counts if reduction == "mean" else y


def gather_nd(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    depth = batch_dims + indices.shape[-1]
    y = np.zeros((*indices.shape[:-1], *x.shape[depth:]), x.dtype)
    for place in np.ndindex(indices.shape[:-1]):
        y[place] = x[(*place[:batch_dims], *indices[place])]
    return y


def scatter_nd(x: Any, indices: Any, updates: Any, reduction: str = "update") -> Any:
    y = x.copy()
    for place in np.ndindex(indices.shape[:-1]):
        at = tuple(indices[place])
        y[at] = COMBINED[reduction](y[at], updates[place])
    return y


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    places = tuple(indices) if isinstance(indices, list) else (indices,)
    y = x.copy()
    if accumulate:
        np.add.at(y, places, values)
    else:
        y[places] = values
    return y


def one_hot(indices: Any, on_value: Any, off_value: Any, depth: int, axis: int = -1) -> Any:
    there = indices[..., None] == np.arange(depth)
    return np.moveaxis(np.where(there, on_value, off_value), -1, axis)


def sparse_dense(x: Any, blocks: Any, columns: Any, starts: Any) -> Any:
    height, width = blocks.shape[1:]
    weight = np.zeros(((len(starts) - 1) * height, x.shape[-1]))
    for row in range(len(starts) - 1):
        for place in range(starts[row], starts[row + 1]):
            left = columns[place] * width
            weight[row * height : (row + 1) * height, left : left + width] = blocks[place]
    return x @ weight.T


def matmul(x: Any, y: Any, out_dtype: Any = None) -> Any:
    return np.matmul(x.astype(out_dtype or x.dtype), y.astype(out_dtype or y.dtype))


INDEXING: dict[str, Callable[..., Any]] = {
    "relax.strided_slice": strided_slice,
    "relax.dynamic_strided_slice": dynamic_strided_slice,
    "relax.slice_scatter": slice_scatter,
    "relax.take": take,
    "relax.gather_elements": gather_elements,
    "relax.scatter_elements": scatter_elements,
    "relax.gather_nd": gather_nd,
    "relax.scatter_nd": scatter_nd,
    "relax.index_tensor": lambda x, indices: x[tuple(indices)],
    "relax.index_put": index_put,
    "relax.one_hot": one_hot,
    "relax.where": np.where,
    "relax.matmul": matmul,
    "relax.outer": np.outer,
    "relax.einsum": _einsum,
    "relax.nn.sparse_dense": sparse_dense,
}
