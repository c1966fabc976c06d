"""Where tensors lie on several devices, as attributes: a mesh by its devices' ids, and axes of it.

    {"axes": ("data", "model"), "devices": ((0, 1), (2, 3)), "platform": "cpu", "spec": ("data",)}

`spec` names for each dimension the axis or the axes that part it, None for none; "UNCONSTRAINED" in
a mapping is what JAX calls so. Without devices the mesh is that of `jax.set_mesh`.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

_FREE = {"PartitionSpec": "UNCONSTRAINED"}


def leaves_places_to_xla(value: Any) -> bool:
    """Whether a value is a sharding over a mesh of which no axis is explicit.

    JAX writes such shardings where operands lie on several devices, or in a mapped function.
    """
    mesh = getattr(value, "mesh", None)
    return mesh is not None and AxisType.Explicit not in mesh.axis_types


def can_be_written(sharding: NamedSharding) -> bool:
    """Whether attributes hold all that a sharding says: no axis is explicit, no memory special."""
    if not leaves_places_to_xla(sharding):
        return False
    if not isinstance(sharding.mesh, Mesh) or sharding.memory_kind is None:
        return sharding.memory_kind is None
    usual: str = sharding.mesh.devices.flat[0].default_memory().kind
    return sharding.memory_kind == usual


def written_sharding(sharding: NamedSharding) -> dict[str, Any]:
    """A sharding as attributes."""
    mesh = sharding.mesh
    spec = tuple(_FREE if part is PartitionSpec.UNCONSTRAINED else part for part in sharding.spec)
    axes = {"axes": tuple(mesh.axis_names), "spec": spec}
    if not isinstance(mesh, Mesh):
        return axes
    ids = np.vectorize(lambda device: device.id, otypes=[int])(mesh.devices)
    return {**axes, "devices": _nested(ids.tolist()), "platform": mesh.devices.flat[0].platform}


def read_sharding(attrs: Mapping[str, Any]) -> NamedSharding | PartitionSpec:
    """What was written, for the devices that there are."""
    parts = (PartitionSpec.UNCONSTRAINED if isinstance(p, Mapping) else p for p in attrs["spec"])
    spec = PartitionSpec(*parts)
    if "devices" not in attrs:
        return spec
    platform, ids = attrs["platform"], np.array(attrs["devices"])
    known = {device.id: device for device in jax.devices(platform)}
    if missing := sorted(set(ids.ravel().tolist()) - known.keys()):
        raise ValueError(
            f"a tensor is to lie on the devices {missing} of the platform {platform}, but those "
            f"there are {sorted(known)}"
        )
    devices = np.vectorize(known.__getitem__, otypes=[object])(ids)
    return NamedSharding(Mesh(devices, attrs["axes"]), spec)


def _nested(ids: Any) -> Any:
    return tuple(map(_nested, ids)) if isinstance(ids, list) else ids
