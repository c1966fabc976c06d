"""Which places of tensors of indices a tensor has."""

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr, Tuple, TupleGetItem, const
from relaxjax.ir.types import TupleType

from .declare import OpError
from .emit import as_places, call, dims_of, dtype_of, ndim_of, number


def has_elements(data: Expr, indices: Expr, axis: int) -> Expr:
    """Which of the indices along an axis are places of `data`."""
    return _is_place(indices, number(dims_of(data)[axis], indices))


def has_nd(data: Expr, indices: Expr) -> Expr:
    """Which of the places in the last axis of `indices` `data` has, to broadcast to its slices."""
    depth = dims_of(indices)[-1]
    if not isinstance(depth, int):
        raise OpError(f"the last dimension of `{indices}` must be known here, but it is {depth}")
    found = _is_place(indices, _lengths(dims_of(data)[:depth], indices))
    count = call("sum", call("astype", found, "int32"), axis=[-1])
    return _before_slices(call("equal", count, const(depth, "int32")), ndim_of(data) - depth)


def has_each(data: Expr, indices: Expr) -> Expr:
    """Which of the places that a tuple of indices says `data` has, to broadcast to its slices."""
    assert isinstance(indices.ty, TupleType)
    fields = indices.fields if isinstance(indices, Tuple) else None
    count = len(indices.ty.fields)
    each = (as_places(fields[i] if fields else TupleGetItem(indices, i)) for i in range(count))
    found = (has_elements(data, one, axis) for axis, one in enumerate(each))
    both = reduce(partial(call, "logical_and"), found)
    return _before_slices(both, ndim_of(data) - count)


def _is_place(indices: Expr, lengths: Expr) -> Expr:
    """Negative places count from the back."""
    from_start = call("greater_equal", indices, call("negative", lengths))
    return call("logical_and", from_start, call("less", indices, lengths))


def _lengths(dims: Sequence[Dim], like: Expr) -> Expr:
    """Dimensions as a tensor: a constant, unless one is symbolic."""
    if all(isinstance(dim, int) for dim in dims):
        return const(np.array(dims, dtype_of(like)))
    return call("astype", call("shape_to_tensor", ShapeExpr(tuple(dims))), dtype_of(like))


def _before_slices(found: Expr, axes: int) -> Expr:
    return call("expand_dims", found, [-1 - axis for axis in range(axes)]) if axes else found
