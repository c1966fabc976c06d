"""What sums, scans and sorting compute, in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special


def _axes(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list | tuple) else axis


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction, in the dtype of its argument."""

    def run(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return function(x, _axes(axis), keepdims=keepdims).astype(x.dtype)

    return run


def _scan(function: Callable[..., Any], start: float) -> Callable[..., Any]:
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


def recurrence(a: Any, b: Any, axis: int = -1, reverse: bool = False) -> Any:
    """y[i] = a[i] * y[i - 1] + b[i], step by step."""
    order = slice(None, None, -1 if reverse else 1)
    y = np.zeros_like(b)
    a, b, result = (np.moveaxis(t, axis, 0)[order] for t in (a, b, y))
    for i in range(len(b)):
        result[i] = (a[i] * result[i - 1] if i else 0) + b[i]
    return y


def median(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis))
    kept = [a for a in range(x.ndim) if a not in axes]
    lengths = [x.shape[a] for a in axes]
    rows = x.transpose([*kept, *axes]).reshape([x.shape[a] for a in kept] + [int(np.prod(lengths))])
    place = np.argsort(rows, -1, kind="stable")[..., (rows.shape[-1] - 1) // 2]
    value = np.take_along_axis(rows, place[..., None], -1)[..., 0]
    if keepdims:
        value, place = (np.expand_dims(part, axes) for part in (value, place))
    return (value, place) if axis is not None and len(axes) == 1 else value


def _order(x: Any, axis: int, descending: bool) -> Any:
    """The places of the elements in order, those that are equal in the order they have."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # Backwards twice, so that of equal elements the first is the first.
    last = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return x.shape[axis] - 1 - last


def topk(
    x: Any,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
) -> Any:
    length = x.shape[axis]
    places = np.take(_order(x, axis, largest), np.arange(min(k, length) if k > 0 else length), axis)
    values = np.take_along_axis(x, places, axis)
    return {"both": (values, places), "values": values, "indices": places}[ret_type]


def unique(
    x: Any,
    ordered: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Which element each one is stands in a row, of a tensor of several dimensions too."""
    if axis is None:
        x = x.reshape(-1)
    function: Any = np.unique  # its results depend on the arguments, as types know only of literals
    return function(x, return_index, return_inverse, return_counts, axis)


def nonzero(x: Any) -> Any:
    return np.stack(np.nonzero(np.atleast_1d(x)))


def multinomial_from_uniform(prob: Any, uniform: Any, rows: Any, dtype: str = "int64") -> Any:
    """How many of the classes end at or before the draw."""
    out = np.zeros(uniform.shape, dtype)
    for i in range(len(uniform)):
        out[i, 0] = (np.cumsum(prob[rows[i, 0]]) <= uniform[i, 0]).sum()
    return out


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "relax.sum": _reduction(np.sum),
    "relax.prod": _reduction(np.prod),
    "relax.mean": _reduction(np.mean),
    "relax.variance": _reduction(np.var),
    "relax.std": _reduction(np.std),
    "relax.max": _reduction(np.max),
    "relax.min": _reduction(np.min),
    "relax.logsumexp": lambda x, axis=None, keepdims=False: special.logsumexp(
        x, axis=_axes(axis), keepdims=keepdims
    ),
    "relax.median": median,
    "relax.cumsum": _scan(np.cumsum, 0),
    "relax.cumprod": _scan(np.cumprod, 1),
    "relax.linear_recurrence": recurrence,
    "relax.argmax": np.argmax,
    "relax.argmin": np.argmin,
    "relax.sort": lambda x, axis=-1, descending=False: np.take_along_axis(
        x, _order(x, axis, descending), axis
    ),
    "relax.argsort": lambda x, axis=-1, descending=False, dtype="int32": _order(
        x, axis, descending
    ),
    "relax.topk": topk,
    "relax.unique": unique,
    "relax.nonzero": nonzero,
    "relax.multinomial_from_uniform": multinomial_from_uniform,
    "relax.bucketize": lambda x, b, out_int32=False, right=False: np.searchsorted(
        b, x, "right" if right else "left"
    ),
}
