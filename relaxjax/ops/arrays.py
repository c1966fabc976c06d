"""What many lowerings share. All of it holds under JAX's strict promotion rules as well."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax import lax
from jax.dtypes import canonicalize_dtype

from relaxjax.ir.expr import np_dtype

from .lax.avals import is_key, key_dtypes


def jax_dtype(name: str | None) -> Any:
    """The dtype of a name as JAX has it now: 64 bits only where they are enabled."""
    return key_dtypes()[str(name)] if is_key(name) else canonicalize_dtype(np_dtype(name))


def cast(x: Any, dtype: Any) -> Any:
    """`x` in another dtype; of a float that is not finite, an integer is unspecified."""
    return lax.convert_element_type(x, jax_dtype(dtype))


def aligned(*arrays: Any) -> tuple[Any, ...]:
    """The arrays with leading dimensions of 1 to one rank; host scalars as they are."""
    ndim = max(jax.numpy.ndim(x) for x in arrays)
    return tuple(
        x
        if 0 in (jax.numpy.ndim(x), ndim - jax.numpy.ndim(x))
        else lax.expand_dims(x, range(ndim - x.ndim))
        for x in arrays
    )


def broadcasting(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of `jax.numpy` on arrays of any ranks."""

    @functools.wraps(function)
    def aligning(*arrays: Any) -> Any:
        return function(*aligned(*arrays))

    return aligning


def keeping_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, its result in the dtype of its first argument."""

    @functools.wraps(function)
    def kept(x: Any, *args: Any, **attrs: Any) -> Any:
        return function(x, *args, **attrs).astype(x.dtype)

    return kept


def through_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of floats; integers are converted to float32 for it, and its result back."""

    @functools.wraps(function)
    def converting(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        if jax.numpy.issubdtype(dtype, jax.numpy.floating):
            return function(*arrays)
        return function(*(x.astype(jax.numpy.float32) for x in arrays)).astype(dtype)

    return converting


def widened(x: Any) -> Any:
    """`x` in the dtype in which sums over it are kept: float32 at least."""
    return x.astype(jax.numpy.float32) if x.dtype.itemsize < 4 else x


def added_up(x: Any, axis: Any, keepdims: bool = False) -> Any:
    """The sum in the dtype of `x`: floats are added up as `widened`, or XLA rounds in between."""
    if not jax.numpy.issubdtype(x.dtype, np.inexact):
        return jax.numpy.sum(x, axis, x.dtype, keepdims=keepdims)
    return jax.numpy.sum(widened(x), axis, keepdims=keepdims).astype(x.dtype)


def as_places(indices: Any) -> Any:
    """Indices in a dtype that can count the places of any axis, and say a place before it."""
    if indices.dtype in (np.int32, np.int64):
        return indices
    return cast(indices, "int32" if indices.dtype.itemsize < 4 else "int64")


def finite_range(dtype: Any) -> tuple[float, float]:
    """The smallest and the largest finite number of a dtype."""
    target = np_dtype(dtype)
    if target.kind in "iu":
        return float(np.iinfo(target).min), float(np.iinfo(target).max)
    limits = ml_dtypes.finfo(target)  # type: ignore[no-untyped-call]  # it has no types
    return float(limits.min), float(limits.max)
