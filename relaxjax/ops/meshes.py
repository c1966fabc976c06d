"""Meshes of the program as meshes of JAX, made of the devices that there are."""

from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from relaxjax.ir.device_mesh import DeviceMesh, Placement
from relaxjax.ir.types import TensorType, TupleType, Type

from .declare import OpError
from .platform import chosen_platform


def jax_mesh(mesh: DeviceMesh) -> Mesh:
    """A mesh as JAX has it; XLA places what is not annotated."""
    devices = _devices()
    missing = [place for place in mesh.devices if place >= len(devices)]
    if missing:
        raise OpError(
            f"the mesh {mesh} has the devices {missing}, but there are {len(devices)} of the "
            f"platform {chosen_platform()}, counted from 0: give a mesh of these, or let the CPU "
            f'be {max(mesh.devices) + 1} devices by jax.config.update("jax_num_cpu_devices", '
            f"{max(mesh.devices) + 1}) before JAX is used"
        )
    chosen = np.empty(mesh.shape, object)
    chosen.flat[:] = [devices[place] for place in mesh.devices]
    return Mesh(chosen, mesh.axes, axis_types=(AxisType.Auto,) * len(mesh.shape))


def parts_values(mesh: DeviceMesh) -> bool:
    """Whether a placement over a mesh says anything here: one device has all of all values."""
    return len(mesh.devices) > 1 and len(_devices()) > 1


def spec_of(placement: Placement) -> PartitionSpec:
    """The axes of the mesh that part each dimension, up to the last one that is parted."""
    return PartitionSpec(
        *(axes if len(axes) > 1 else axes[0] if axes else None for axes in placement.split)
    )


def sharding_of(placement: Placement) -> NamedSharding:
    """A placement as JAX has it."""
    return NamedSharding(jax_mesh(placement.mesh), spec_of(placement))


def constrained(value: Any, placement: Placement) -> Any:
    """An array that is to lie as the placement says, wherever a mesh parts values."""
    try:
        placement.check(value.shape, value.ndim)
    except ValueError as error:
        raise OpError(str(error)) from None
    if not parts_values(placement.mesh):
        return value
    if jax.sharding.get_abstract_mesh().manual_axes:
        raise OpError(
            f"a value that each device has a part of already is to lie at {placement}: annotate it "
            "outside of the function that is run on each device"
        )
    return lax.with_sharding_constraint(value, sharding_of(placement))


def constrained_as(value: Any, ty: Type | None) -> Any:
    """A value with all that its type says of where it lies."""
    match ty:
        case TensorType(placement=Placement() as placement):
            return constrained(value, placement)
        case TupleType(fields=fields) if isinstance(value, tuple | list):
            return tuple(map(constrained_as, value, fields))
        case _:
            return value


def _devices() -> list[jax.Device]:
    try:
        return list(jax.devices(chosen_platform()))
    except RuntimeError as error:
        raise OpError(
            f"a mesh needs devices of the platform {chosen_platform()}, for which the program is "
            f"made, but there are none: {error}"
        ) from None
