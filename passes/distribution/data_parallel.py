"""The batch in parts, one for each device, and the weights on all of them or in parts, too."""

from typing import Any

from relaxjax.ir.device_mesh import DeviceMesh, Placement
from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory

from .placing import (
    along,
    axis_of,
    can_be_parted,
    inputs_of,
    mesh_for,
    model_of,
    weights_of,
    with_placements,
)


@pass_factory(opt_level=0)
def DataParallel(
    mod: IRModule, mesh: Any = None, axis: str | None = None, func_name: str | None = None
) -> IRModule:
    """Part the inputs of a model along their first dimension, that of the batch.

    Weights and states are whole on all devices, unless their types say something else already.
    The gradients of the weights are sums over the batch, for which XLA puts in an allreduce each.
    The module says by `param_num` and `state_num` which parameters are inputs.

    Args:
        mesh: as in AnnotateSharding.
        axis: the axis of the mesh, by default the first one.
        func_name: the model, by default `backbone` or `main`.
    """
    over = mesh_for(mod, mesh)
    name, function = model_of(mod, func_name)
    return with_placements(mod, _by_batch(mod, name, function, over, axis_of(over, axis)))


@pass_factory(opt_level=0)
def FullySharded(
    mod: IRModule, mesh: Any = None, axis: str | None = None, func_name: str | None = None
) -> IRModule:
    """Part the batch as DataParallel does, and each weight along its longest dimension.

    A device keeps its part of the weights, of their gradients and of the optimizer's states. XLA
    gathers a weight where it is used, and gives each device its part of the sum of the gradients.
    A weight no dimension of which has so many equal parts is whole on all devices.

    Args:
        mesh: as in AnnotateSharding.
        axis: the axis of the mesh, by default the first one.
        func_name: the model, by default `backbone` or `main`.
    """
    over = mesh_for(mod, mesh)
    name, function = model_of(mod, func_name)
    along_axis = axis_of(over, axis)
    places = _by_batch(mod, name, function, over, along_axis)
    for weight in weights_of(mod, name, function):
        if weight in places:
            places[weight] = _longest(weight, over, along_axis)
    return with_placements(mod, places)


def _by_batch(
    mod: IRModule, name: str, function: Function, mesh: DeviceMesh, axis: str
) -> dict[Var, Placement]:
    inputs = inputs_of(mod, name, function)
    places = {}
    for param in function.params:
        ty = param.ty
        if not isinstance(ty, TensorType):
            continue
        if param in inputs:
            has_batch = ty.ndim > 0
            places[param] = along(mesh, axis, 0 if has_batch else None, ty.placement)
        elif ty.placement is None or ty.placement.mesh != mesh or axis not in ty.placement.axes:
            places[param] = along(mesh, axis, None, ty.placement)
    return places


def _longest(weight: Var, mesh: DeviceMesh, axis: str) -> Placement:
    """The longest dimension parted, the first one of several; none that is parted already."""
    ty = weight.ty
    assert isinstance(ty, TensorType)
    before = along(mesh, axis, None, ty.placement)
    dims = ty.dims or ()
    able = [
        dim
        for dim, size in enumerate(dims)
        if isinstance(size, int)
        and can_be_parted(ty, dim, mesh.size(axis))
        and dim not in before.parts
    ]
    sizes = {dim: int(str(dims[dim])) for dim in able}
    return along(mesh, axis, max(able, key=sizes.__getitem__), before) if able else before
