"""Which devices a function's values are to be on, alone or in a mesh."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.ir.expr import Call, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import operator_name
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import bound_vars, post_order
from relaxjax.ops.meshes import jax_mesh, parts_values, sharding_of

from .target import device
from .traits import reachable


def devices_of(mod: IRModule, name: str) -> Mapping[str, jax.Device]:
    """The devices that a function and those it calls name, such as `llvm:1:global`.

    One that this machine does not have is left out: what is to be there runs with the rest.
    """
    named = dict.fromkeys(d for _, function in reachable(mod, name) for d in _named(function))
    found = {vdevice: _device(vdevice) for vdevice in named}
    return {vdevice: known for vdevice, known in found.items() if known is not None}


def device_of(ty: Type | None, devices: Mapping[str, jax.Device]) -> jax.Device | None:
    """The device of a value of a type, None where its type does not say."""
    return devices.get(ty.vdevice or "") if isinstance(ty, TensorType) else None


def _named(function: Function) -> Iterator[str]:
    for var in bound_vars(function):
        yield from (ty.vdevice for _, ty in tensors_in(var.ty) if ty.vdevice is not None)
    for expr in post_order(function):
        if isinstance(expr, Call) and operator_name(expr) == "relax.to_vdevice":
            yield expr.attrs["dst_vdevice"]


def _device(name: str) -> jax.Device | None:
    kind, index, _ = name.split(":")
    try:
        return device(kind, int(index))
    except ValueError:
        return None


def mesh_of(mod: IRModule, name: str) -> DeviceMesh | None:
    """The mesh that a function, or one that it calls, has values on; None where there is none."""
    return next((mesh for _, f in reachable(mod, name) for mesh in _meshes(f)), None)


def on_mesh(
    program: Callable[..., Any], params: Sequence[Var], mesh: DeviceMesh | Mesh
) -> Callable[..., Any]:
    """`program`, with its arrays on the mesh: where their types say, others where they are.

    JAX runs a program only where all of its values can be: what it holds on devices other than
    those of the mesh, all of them get.
    """

    def run(*args: Any) -> Any:
        if isinstance(mesh, DeviceMesh) and not parts_values(mesh):
            return program(*args)
        devices = jax_mesh(mesh) if isinstance(mesh, DeviceMesh) else mesh
        whole = NamedSharding(devices, PartitionSpec())
        pairs = zip(args, params, strict=True)
        return program(*(_placed(arg, param.ty, whole) for arg, param in pairs))

    return run


def _placed(arg: Any, ty: Type | None, whole: NamedSharding) -> Any:
    if isinstance(arg, tuple | list) and isinstance(ty, TupleType):
        return type(arg)(_placed(a, t, whole) for a, t in zip(arg, ty.fields, strict=True))
    if isinstance(ty, TensorType) and ty.placement is not None:
        return jax.device_put(arg, sharding_of(ty.placement))
    elsewhere = isinstance(arg, jax.Array) and arg.sharding.device_set != whole.device_set
    return jax.device_put(arg, whole) if elsewhere else arg


def _meshes(function: Function) -> Iterator[DeviceMesh]:
    for var in bound_vars(function):
        placements = (ty.placement for _, ty in tensors_in(var.ty))
        yield from (placement.mesh for placement in placements if placement is not None)
    for expr in post_order(function):
        if isinstance(expr, Call):
            yield from (value for value in expr.attrs.values() if isinstance(value, DeviceMesh))
