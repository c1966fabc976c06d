"""Sharded results: they have the shardings, and vary over the mapped axes, that JAX's types say."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec, auto_axes

from relaxjax.lowering import varying_axes

# Gives the results of a loss, and its gradients.
Adjoint = Callable[..., tuple[Sequence[Any], Sequence[Any]]]


def on_devices(adjoint: Adjoint, results: Sequence[Any], wanted: Sequence[int]) -> Adjoint:
    """A backward program whose results have JAX's types `results`, and gradients those of `wanted`.

    Where the axes of a mesh are explicit, XLA chooses the shardings inside of the program. The
    gradient by what all devices along a mapped axis share is the sum of theirs.
    """

    def sharded(*arrays: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        check_whole(arrays)
        given = [jax.typeof(arrays[index]) for index in wanted]
        run: Any = adjoint
        explicit = explicit_mesh([*results, *given])
        if explicit is not None:
            shardings = [[sharding_on(explicit, aval) for aval in one] for one in (results, given)]
            run = auto_axes(adjoint, out_sharding=tuple(shardings))
        values, gradients = run(*arrays)
        over = results[0].manual_axis_type.varying
        summed = [
            _summed(gradient, over - aval.manual_axis_type.varying)
            for gradient, aval in zip(gradients, given, strict=True)
        ]
        return list(map(_typed, values, results)), list(map(_typed, summed, given))

    return sharded


def explicit_mesh(avals: Iterable[Any]) -> Any:
    """The mesh with explicit axes that types name, None where none does."""
    meshes = (aval.sharding.mesh for aval in avals)
    return next((mesh for mesh in meshes if AxisType.Explicit in mesh.axis_types), None)


def sharding_on(mesh: Any, aval: Any) -> Any:
    """That of a type. One that names no mesh, as NumPy's arrays do, is whole everywhere."""
    whole = NamedSharding(mesh, PartitionSpec())
    return whole if aval.sharding.mesh.empty else aval.sharding


def are_on_one_device(arrays: Iterable[Any]) -> bool:
    """Whether no array is of a mesh of devices, or of one device's part in it, by its type."""
    types = map(jax.typeof, arrays)
    return all(ty.sharding.mesh.empty and not ty.manual_axis_type.varying for ty in types)


def check_whole(arrays: Iterable[Any]) -> None:
    """Refuse what is a sum still to be made, or has a gradient that is: other rules hold then."""
    for array in arrays:
        axes = jax.typeof(array).manual_axis_type
        if axes.reduced or axes.unreduced:
            raise ValueError(
                f"an argument is of type {jax.typeof(array).str_short()}, which leaves a sum over "
                f"{sorted({*axes.reduced, *axes.unreduced})} to be made, of it or of its gradient: "
                "take the gradient by what devices share, or by what varies"
            )


def _summed(gradient: Any, axes: frozenset[str]) -> Any:
    return lax.psum(gradient, tuple(sorted(axes))) if axes else gradient


def _typed(value: Any, aval: Any) -> Any:
    """A value that the devices along some axes have alike, as one that they share by its type."""
    axes = tuple(sorted(varying_axes(value) - aval.manual_axis_type.varying))
    if not axes or not jnp.issubdtype(value.dtype, np.generic):
        return value
    is_first = sum(lax.axis_index(axis) for axis in axes) == 0
    return lax.psum(jnp.where(is_first, value, jnp.zeros_like(value)), axes).astype(value.dtype)
