"""Operators that put elements in another order, or repeat them."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType

from .axis_layouts import ONE_AXIS, TILED, axis_rule
from .conversions import Axes, Ints
from .cost_rules import MOVES
from .declare import OpError, op
from .emit import call, dims_of, ndim_of, shape_of
from .placements import permuted
from .shape_layouts import PERMUTED
from .shapes import element_count, normalize_axes, normalize_axis, require_ndim, require_sizes

_MOVES: dict[str, Any] = {"precision": "follow", "fusion": "injective", "facts": {"moves": True}}


def _permute_dims_gradient(g: Expr, y: Expr, x: Expr, axes: Any) -> Expr:
    if axes is None:
        return call("permute_dims", g)
    order = normalize_axes(axes, ndim_of(x), "axes")
    return call("permute_dims", g, [order.index(a) for a in range(len(order))])


@op(
    "relax.permute_dims",
    layout=PERMUTED,
    lower=lambda x, axes: jnp.transpose(x, axes),
    gradient=_permute_dims_gradient,
    places=permuted,
    **_MOVES,
    cost=MOVES,
)
def permute_dims(x: TensorType, axes: Axes | None = None) -> TensorType:
    """`x` with its axes in the order `axes`, or in reverse order."""
    if axes is None and x.ndim < 0:
        return x
    ndim = x.ndim if x.ndim >= 0 or axes is None else len(axes)
    if axes is not None and len(axes) != ndim:
        raise OpError(f"`axes` must name all {ndim} axes of `x`, found {list(axes)}")
    order = tuple(reversed(range(ndim))) if axes is None else normalize_axes(axes, ndim, "axes")
    if x.dims is None:
        return TensorType(None, x.dtype, ndim, x.vdevice)
    return TensorType([x.dims[a] for a in order], x.dtype, vdevice=x.vdevice)


def _aligned_repeats(dims: Sequence[Dim], repeats: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """For each axis of a tiled tensor: how often, and the length that is repeated."""
    ndim = max(len(dims), len(repeats))
    times = (1,) * (ndim - len(repeats)) + tuple(repeats)
    lengths = (1,) * (ndim - len(dims)) + tuple(dims)
    return list(zip(times, lengths, strict=True))


def _tile_gradient(g: Expr, y: Expr, data: Expr, repeats: Any) -> Expr:
    pairs = _aligned_repeats(dims_of(data), repeats)
    apart = call("reshape", g, [dim for pair in pairs for dim in pair])
    total = call("sum", apart, [2 * axis for axis in range(len(pairs))])
    return call("reshape", total, shape_of(data))


@op(
    "relax.tile",
    layout=TILED,
    lower=lambda data, repeats: jnp.tile(data, repeats),
    gradient=_tile_gradient,
    **_MOVES,
    cost=MOVES,
)
def tile(data: TensorType, repeats: Ints) -> TensorType:
    """`data` laid side by side, `repeats[i]` times along axis i; axes are counted from the back."""
    require_sizes("repeats", repeats)
    if data.dims is None:
        ndim = -1 if data.ndim < 0 else max(data.ndim, len(repeats))
        return TensorType(None, data.dtype, ndim, data.vdevice)
    dims = [length * times for times, length in _aligned_repeats(data.dims, repeats)]
    return TensorType(dims, data.dtype, vdevice=data.vdevice)


def _repeat_gradient(g: Expr, y: Expr, data: Expr, repeats: Dim, axis: int | None) -> Expr:
    dims = dims_of(data)
    along = 0 if axis is None else normalize_axis(axis, len(dims))
    rows = (element_count(dims),) if axis is None else dims
    apart = call("reshape", g, (*rows[: along + 1], repeats, *rows[along + 1 :]))
    return call("reshape", call("sum", apart, along + 1), shape_of(data))


@op(
    "relax.repeat",
    layout=ONE_AXIS,
    lower=lambda data, repeats, axis: jnp.repeat(data, repeats, axis),
    gradient=_repeat_gradient,
    **_MOVES,
    cost=MOVES,
)
def repeat(data: TensorType, repeats: int, axis: int | None = None) -> TensorType:
    """Each element `repeats` times, along `axis`, or of the flattened tensor."""
    require_sizes("repeats", (repeats,))
    if axis is None:
        count = None if data.dims is None else (element_count(data.dims) * repeats,)
        return TensorType(count, data.dtype, 1, data.vdevice)
    along = normalize_axis(axis, data.ndim) if data.ndim >= 0 else 0
    if data.dims is None:
        return data
    dims = (*data.dims[:along], data.dims[along] * repeats, *data.dims[along + 1 :])
    return TensorType(dims, data.dtype, vdevice=data.vdevice)


@op(
    "relax.flip",
    layout=ONE_AXIS,
    lower=lambda data, axis: lax.rev(data, [axis % data.ndim]),
    gradient=lambda g, y, data, axis: call("flip", g, axis),
    precision="follow",
    fusion="injective",
    facts={"moves": True, "involution": True},
    cost=MOVES,
)
def flip(data: TensorType, axis: int) -> TensorType:
    """The elements in reverse order along `axis`."""
    if data.ndim >= 0:
        normalize_axis(axis, data.ndim)
    return data


def _reverse_sequence(data: Any, seq_lengths: Any, seq_axis: int, batch_axis: int) -> Any:
    seq, batch = seq_axis % data.ndim, batch_axis % data.ndim
    place = lax.broadcasted_iota(seq_lengths.dtype, data.shape, seq)
    whole = jnp.asarray(data.shape[seq], seq_lengths.dtype)
    length = lax.broadcast_in_dim(jnp.minimum(seq_lengths, whole), data.shape, (batch,))
    source = jnp.where(place < length, length - 1 - place, place)
    return jnp.take_along_axis(data, source, seq)


@op(
    "relax.reverse_sequence",
    layout=axis_rule("seq_axis", "batch_axis"),
    lower=_reverse_sequence,
    gradient=lambda g, y, data, lengths, **axes: (
        call("reverse_sequence", g, lengths, **axes),
        None,
    ),
    **_MOVES,
    cost=MOVES,
)
def reverse_sequence(
    data: TensorType, seq_lengths: TensorType, seq_axis: int = 1, batch_axis: int = 0
) -> TensorType:
    """The first `seq_lengths[b]` elements along `seq_axis` in reverse order, for each b.

    A length of more than there are reverses all of them.
    """
    if seq_lengths.dtype not in (None, "int32", "int64"):
        raise OpError(f"`seq_lengths` must be int32 or int64, found {seq_lengths.dtype}")
    require_ndim("seq_lengths", seq_lengths, 1)
    if data.ndim >= 0:
        normalize_axis(seq_axis, data.ndim, "seq_axis")
        batch = normalize_axis(batch_axis, data.ndim, "batch_axis")
        lengths = seq_lengths.dims
        if data.dims and lengths and can_prove_different(data.dims[batch], lengths[0]):
            raise OpError(
                f"`seq_lengths` must have {data.dims[batch]} elements, one for each of the batch, "
                f"found {lengths[0]}"
            )
    return data
