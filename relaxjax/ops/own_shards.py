"""The part of a value that a device takes for itself, where several have the value alike.

Nothing is told. As for what is, the group are the devices along `mesh_axes` of the mesh, and each
device has an adjoint of its own: that of the part stands at its place, with zeros around it.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.types import TensorType

from .ccl import Group, communication, group_axes, scaled
from .emit import call

_TAKE, _PUT = "dist.redistribute_replica_to_shard", "dist.shard_among_zeros"


def _start(size: int, axes: tuple[str, ...]) -> Any:
    """Where the part of this device begins, of equal parts of such a size."""
    return lax.axis_index(axes) * size


def _taken(data: Any, num_workers: int, axis: int, mesh_axes: Any) -> Any:
    axes, place = group_axes(mesh_axes, num_workers), axis % data.ndim
    size = data.shape[place] // num_workers
    return lax.dynamic_slice_in_dim(data, _start(size, axes), size, place)


def _put(data: Any, num_workers: int, axis: int, mesh_axes: Any) -> Any:
    axes, place = group_axes(mesh_axes, num_workers), axis % data.ndim
    size = data.shape[place]
    shape = (*data.shape[:place], size * num_workers, *data.shape[place + 1 :])
    zeros = jnp.zeros(shape, data.dtype)
    return lax.dynamic_update_slice_in_dim(zeros, data, _start(size, axes), place)


def _back_by(name: str) -> Callable[..., Any]:
    """The gradient rule of each of the two, which is the other."""
    return lambda g, y, data, num_workers, axis, mesh_axes: call(
        name, g, num_workers, axis, mesh_axes
    )


@communication(_TAKE, alike=False, lower=_taken, gradient=_back_by(_PUT))
def redistribute_replica_to_shard(
    data: TensorType, num_workers: int, axis: int, mesh_axes: Group = None
) -> TensorType:
    """The part along `axis` of `data`, which the devices have alike, that is this device's own."""
    return scaled(data, {}, {axis: num_workers})


@communication(_PUT, alike=False, lower=_put, gradient=_back_by(_TAKE))
def shard_among_zeros(
    data: TensorType, num_workers: int, axis: int, mesh_axes: Group = None
) -> TensorType:
    """This device's part at its place along `axis`, and zeros where those of the others are."""
    return scaled(data, {axis: num_workers}, {})
