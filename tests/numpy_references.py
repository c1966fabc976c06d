"""What operators compute, in numpy, in the plainest way."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy_network_references import NETWORK, erf, sigmoid

from relaxjax.ir.dims import substitute_dim
from relaxjax.ir.index_map import index_axes, index_map
from relaxjax.ops.layout_transform import transformed_shape


def axes_of(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list | tuple) else axis


def trunc_divide(x: Any, y: Any) -> Any:
    """Division, which of integers cuts off towards zero."""
    return np.trunc(np.true_divide(x, y)) if x.dtype.kind in "iu" else x / y


def recurrence(a: Any, b: Any, axis: int = -1, reverse: bool = False) -> Any:
    """y[i] = a[i] * y[i - 1] + b[i], step by step."""
    order = slice(None, None, -1 if reverse else 1)
    y = np.zeros_like(b)
    a, b, result = (np.moveaxis(t, axis, 0)[order] for t in (a, b, y))
    for i in range(len(b)):
        result[i] = (a[i] * result[i - 1] if i else 0) + b[i]
    return y


def layout_transform(x: Any, layout: Any, pad_value: float = 0) -> Any:
    """Each element carried to its place, one after another."""
    places = index_map(layout)
    axes = index_axes(x.ndim)
    moved = {
        tuple(substitute_dim(o, dict(zip(axes, at, strict=True))) for o in places.outputs): x[at]
        for at in np.ndindex(x.shape)
    }
    shape = transformed_shape(places, x.shape)
    result = np.full(shape, pad_value, x.dtype)
    for at, value in moved.items():
        result[at] = value
    return result


def scan(function: Callable[..., Any], start: float) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, dtype: Any = None, exclusive: bool = False) -> Any:
        if axis is None:
            x, axis = x.reshape(-1), 0
        done = function(x.astype(dtype or ("int32" if x.dtype == bool else x.dtype)), axis=axis)
        if exclusive:
            done = np.roll(done, 1, axis)
            if done.shape[axis]:
                done[(slice(None),) * (axis % done.ndim) + (0,)] = start
        return done.astype(x.dtype) if dtype is None else done

    return run


def median(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis))
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose([*kept, *axes]).reshape([x.shape[a] for a in kept] + [-1])
    place = np.argsort(rows, -1, kind="stable")[..., (rows.shape[-1] - 1) // 2]
    value = np.take_along_axis(rows, place[..., None], -1)[..., 0]
    if keepdims:
        value, place = (np.expand_dims(part, axes) for part in (value, place))
    return (value, place) if axis is not None and len(axes) == 1 else value


def strided_slice(
    x: Any, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> Any:
    cuts = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        step = 1 if strides is None else strides[i]
        stop = None if step < 0 and end[i] < -x.shape[axis] else end[i]
        cuts[axis] = slice(begin[i], stop, step)
    return x[tuple(cuts)]


def scatter_elements(x: Any, i: Any, u: Any, axis: int = 0, reduction: str = "update") -> Any:
    y, counts = x.copy(), np.ones(x.shape)
    combine: dict[str, Callable[..., Any]] = {
        "add": np.add,
        "mean": np.add,
        "mul": np.multiply,
        "max": np.maximum,
    }
    combine |= {"min": np.minimum, "update": lambda old, new: new}
    for place in np.ndindex(i.shape):
        at = list(place)
        at[axis] = i[place]
        y[tuple(at)] = combine[reduction](y[tuple(at)], u[place])
        counts[tuple(at)] += 1
    return y / counts if reduction == "mean" else y


REFERENCES: dict[str, Callable[..., Any]] = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": trunc_divide,
    "relax.power": np.power,
    "relax.floor_divide": np.floor_divide,
    "relax.mod": np.fmod,
    "relax.floor_mod": np.mod,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.atan2": lambda x, y: np.arctan2(x, y).astype(x.dtype),
    "relax.log_add_exp": lambda x, y: np.logaddexp(x, y).astype(x.dtype),
    "relax.equal": np.equal,
    "relax.not_equal": np.not_equal,
    "relax.less": np.less,
    "relax.less_equal": np.less_equal,
    "relax.greater": np.greater,
    "relax.greater_equal": np.greater_equal,
    "relax.logical_and": np.logical_and,
    "relax.logical_or": np.logical_or,
    "relax.logical_xor": np.logical_xor,
    "relax.logical_not": np.logical_not,
    "relax.bitwise_and": np.bitwise_and,
    "relax.bitwise_or": np.bitwise_or,
    "relax.bitwise_xor": np.bitwise_xor,
    "relax.bitwise_not": np.bitwise_not,
    "relax.left_shift": np.left_shift,
    "relax.right_shift": np.right_shift,
    "relax.ewise_fma": lambda x, y, z: x * y + z,
    "relax.abs": np.abs,
    "relax.acos": np.arccos,
    "relax.acosh": np.arccosh,
    "relax.asin": np.arcsin,
    "relax.asinh": np.arcsinh,
    "relax.atan": np.arctan,
    "relax.atanh": np.arctanh,
    "relax.ceil": np.ceil,
    "relax.cos": np.cos,
    "relax.cosh": np.cosh,
    "relax.erf": erf,
    "relax.exp": np.exp,
    "relax.floor": np.floor,
    "relax.log": np.log,
    "relax.negative": lambda x: x if x.dtype == bool else -x,
    "relax.round": lambda x: x if x.dtype == bool else np.rint(x),
    "relax.rsqrt": lambda x: 1 / np.sqrt(x),
    "relax.sigmoid": sigmoid,
    "relax.sign": lambda x: x if x.dtype == bool else np.sign(x),
    "relax.sin": np.sin,
    "relax.sinh": np.sinh,
    "relax.sqrt": np.sqrt,
    "relax.square": lambda x: x * x,
    "relax.tan": np.tan,
    "relax.tanh": np.tanh,
    "relax.trunc": np.trunc,
    "relax.isfinite": np.isfinite,
    "relax.isinf": np.isinf,
    "relax.isnan": np.isnan,
    "relax.clip": lambda x, low, high: np.clip(x, low, high).astype(x.dtype),
    "relax.sum": lambda x, axis=None, keepdims=False: np.sum(
        x, axes_of(axis), keepdims=keepdims
    ).astype(x.dtype),
    "relax.prod": lambda x, axis=None, keepdims=False: np.prod(
        x, axes_of(axis), keepdims=keepdims
    ).astype(x.dtype),
    "relax.mean": lambda x, axis=None, keepdims=False: np.mean(
        x, axes_of(axis), keepdims=keepdims
    ).astype(x.dtype),
    "relax.max": lambda x, axis=None, keepdims=False: np.max(x, axes_of(axis), keepdims=keepdims),
    "relax.min": lambda x, axis=None, keepdims=False: np.min(x, axes_of(axis), keepdims=keepdims),
    "relax.median": median,
    "relax.cumsum": scan(np.cumsum, 0),
    "relax.cumprod": scan(np.cumprod, 1),
    "relax.linear_recurrence": recurrence,
    "relax.eye": lambda n, m=None, k=0, dtype="float32": np.eye(n, m, k, dtype),
    "relax.eye_like": lambda x, k=0, dtype=None: np.eye(x.shape[0], x.shape[1], k),
    "relax.arange": lambda *args: np.arange(*args[:3]),
    "relax.tril": np.tril,
    "relax.triu": np.triu,
    "relax.reshape": lambda x, shape: x.reshape(
        [x.shape[i] if d == 0 and x.size else d for i, d in enumerate(shape)]
    ),
    "relax.flatten": np.ravel,
    "relax.expand_dims": lambda x, axis: np.expand_dims(x, axes_of(axis)),
    "relax.broadcast_to": np.broadcast_to,
    "relax.permute_dims": np.transpose,
    "relax.layout_transform": layout_transform,
    "relax.flip": np.flip,
    "relax.concat": lambda tensors, axis=0: np.concatenate(tensors, axis or 0),
    "relax.stack": np.stack,
    "relax.tile": np.tile,
    "relax.repeat": np.repeat,
    "relax.meshgrid": lambda tensors, indexing="ij": tuple(
        np.meshgrid(*tensors, indexing="xy" if indexing == "xy" else "ij")
    ),
    "relax.matmul": lambda x, y, out_dtype=None: np.matmul(
        x.astype(out_dtype or x.dtype), y.astype(out_dtype or y.dtype)
    ),
    "relax.outer": np.outer,
    "relax.einsum": lambda tensors, text: np.einsum(text, *tensors),
    "relax.where": np.where,
    "relax.argmax": np.argmax,
    "relax.argmin": np.argmin,
    "relax.bucketize": lambda x, b, out_int32=False, right=False: np.searchsorted(
        b, x, "right" if right else "left"
    ),
    "relax.strided_slice": strided_slice,
    "relax.gather_elements": lambda x, i, axis=0: (
        np.stack(
            [
                x[tuple(np.where(np.arange(x.ndim) == axis % x.ndim, i[p], p))]
                for p in np.ndindex(i.shape)
            ]
        ).reshape(i.shape)
        if i.size
        else np.zeros(i.shape)
    ),
    "relax.scatter_elements": scatter_elements,
    "relax.index_tensor": lambda x, indices: x[tuple(indices)],
    "relax.sort": lambda x, axis=-1, descending=False: (
        -np.sort(-x, axis) if descending else np.sort(x, axis)
    ),
    "relax.argsort": lambda x, axis=-1, descending=False: np.argsort(
        -x if descending else x, axis, kind="stable"
    ),
    **NETWORK,
}
