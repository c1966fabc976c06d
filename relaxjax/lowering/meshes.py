"""Arguments of a program over a mesh: JAX runs it only where all of its values can be."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.ir.expr import Call, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import bound_vars, post_order
from relaxjax.ops.meshes import jax_mesh, parts_values, sharding_of

from .traits import reachable


def mesh_of(mod: IRModule, name: str) -> DeviceMesh | None:
    """The mesh that a function, or one that it calls, has values on; None where there is none."""
    return next((mesh for _, f in reachable(mod, name) for mesh in _meshes(f)), None)


def on_mesh(
    program: Callable[..., Any], params: Sequence[Var], mesh: DeviceMesh | Mesh
) -> Callable[..., Any]:
    """`program`, with its arrays on the mesh: where their types say, others where they are.

    What JAX holds on devices other than those of the mesh, all of them get.
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
