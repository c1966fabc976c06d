"""What the passes share: the mesh, the inputs and parameters of a model, types that say a place."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jax.sharding import PartitionSpec

from relaxjax.ir.device_mesh import MESHES, DeviceMesh, Placement, placement_parts
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.tuples import each_tensor
from relaxjax.ir.types import TensorType, same_type
from relaxjax.passes.structure.callers import with_callers
from relaxjax.trainable.sharding import axes_of

_MODELS = ("backbone", "main")


def mesh_for(mod: IRModule, mesh: Any) -> DeviceMesh:
    """The mesh that is asked for, for None the only one that the module lists.

    `{"data": 4, "model": 2}` is one of the first eight devices, and a mesh of JAX of its own.
    """
    if isinstance(mesh, DeviceMesh):
        return mesh
    if isinstance(mesh, Mapping):
        sizes = tuple(axis.size for axis in axes_of(mesh))
        return DeviceMesh(sizes, range(math.prod(sizes)), tuple(mesh))
    if mesh is None:
        listed = [one for one in mod.global_infos.get(MESHES, ()) if isinstance(one, DeviceMesh)]
        if len(listed) == 1:
            return listed[0]
        raise ValueError(
            f'the module lists {len(listed)} meshes: say which, as by mesh={{"data": 2}}'
        )
    devices, axes = getattr(mesh, "devices", None), getattr(mesh, "axis_names", None)
    if devices is None or axes is None:
        raise TypeError(
            f'`mesh` must be R.device_mesh(...), {{"data": 2}} or a jax.sharding.Mesh, not {mesh!r}'
        )
    known = list(devices.flat[0].client.devices())
    return DeviceMesh(devices.shape, [known.index(one) for one in devices.flat], tuple(axes))


def placement_for(spec: Any, mesh: DeviceMesh) -> Placement:
    """A placement: as text, or by the axes for each dimension, as jax.sharding.PartitionSpec."""
    if isinstance(spec, str):
        return Placement(mesh, placement_parts(spec))
    if not isinstance(spec, PartitionSpec | Sequence):
        raise TypeError(
            f'a placement is a text such as "S[0], R", or has the axes of the mesh for each '
            f'dimension, as (None, "model"), but it is {spec!r}'
        )
    parts: list[int | None] = [None] * len(mesh.axes)
    for dim, given in enumerate(spec):
        names = (given,) if isinstance(given, str) else tuple(given or ())
        for axis in names:
            if axis not in mesh.axes:
                hint = did_you_mean(str(axis), mesh.axes)
                raise ValueError(f"the mesh has no axis `{axis}`, but {list(mesh.axes)}{hint}")
            if parts[mesh.axes.index(axis)] is not None:
                raise ValueError(f"{spec} names the axis `{axis}` twice: it parts one dimension")
            parts[mesh.axes.index(axis)] = dim
        if list(names) != sorted(names, key=mesh.axes.index):
            raise ValueError(
                f"{spec} parts dimension {dim} along {list(names)}, but a placement goes by the "
                f"order of the mesh: {list(mesh.axes)}"
            )
    return Placement(mesh, tuple(parts))


def along(
    mesh: DeviceMesh, axis: str, dim: int | None, others: Placement | None = None
) -> Placement:
    """The placement that parts a dimension along an axis; along other axes it is as before."""
    before = (None,) * len(mesh.axes) if others is None or others.mesh != mesh else others.parts
    parts = [dim if name == axis else old for name, old in zip(mesh.axes, before, strict=True)]
    return Placement(mesh, tuple(parts))


def axis_of(mesh: DeviceMesh, axis: str | None, place: int = 0) -> str:
    """The axis that is asked for, the one at a place of the mesh for None."""
    if axis is None:
        return mesh.axes[place]
    if axis not in mesh.axes:
        hint = did_you_mean(axis, mesh.axes)
        raise ValueError(f"the mesh has no axis `{axis}`, but {list(mesh.axes)}{hint}")
    return axis


def model_of(mod: IRModule, name: str | None) -> tuple[str, Function]:
    """The function that a pass is about: the one named, else `backbone` or `main`."""
    found = next((one for one in _MODELS if one in mod), None) if name is None else name
    if found is None:
        raise ValueError("the module has neither `backbone` nor `main`: give the name `func_name`")
    function = mod[found]
    if not isinstance(function, Function):
        raise TypeError(f"`{found}` has no body: it comes from outside")
    return found, function


def inputs_of(mod: IRModule, name: str, function: Function) -> list[Var]:
    """The parameters of a model that are neither weights nor states: `param_num` tells."""
    if "param_num" not in mod.attrs:
        raise ValueError(
            f"which parameters of `{name}` are inputs, the module must say: give it the attributes "
            "`param_num` and `state_num`, the numbers of weights and states, which come last"
        )
    others = mod.attrs["param_num"] + mod.attrs.get("state_num", 0)
    return list(function.params[: len(function.params) - others])


def weights_of(mod: IRModule, name: str, function: Function) -> list[Var]:
    """The parameters of a model that are trained."""
    first = len(inputs_of(mod, name, function))
    return list(function.params[first : first + mod.attrs["param_num"]])


def can_be_parted(ty: TensorType, dim: int, size: int) -> bool:
    """Whether a dimension is there, and has so many equal parts, as far as it is known."""
    if ty.ndim <= dim:
        return False
    found = None if ty.dims is None else ty.dims[dim]
    return not isinstance(found, int) or (found > 0 and found % size == 0)


def placed(param: Var, placement: Placement) -> Var:
    """A parameter whose type says where it lies, each tensor of a tuple alike."""
    try:
        ty = each_tensor(param.ty, lambda tensor: replace(tensor, placement=placement))
    except ValueError as error:
        raise ValueError(f"the parameter `{param.name}`: {error}") from None
    return param if same_type(ty, param.ty) else Var(param.name, ty, span=param.span)


def with_placements(
    mod: IRModule, places: Mapping[Var, Placement], meshes: Iterable[DeviceMesh] = ()
) -> IRModule:
    """The module with parameters that lie where they are to, and the meshes listed."""
    new = {param: var for param, p in places.items() if (var := placed(param, p)) is not param}
    values: dict[Function, Mapping[Var, Expr]] = {
        function: {param: new[param] for param in function.params if param in new}
        for function in mod.relax_functions().values()
    }
    changed = with_callers(mod, {}, lambda function: values.get(function, {})) if new else mod
    return with_meshes(changed, [*(place.mesh for place in places.values()), *meshes])


def with_meshes(mod: IRModule, meshes: Sequence[DeviceMesh]) -> IRModule:
    """The module, which lists these meshes, too."""
    listed = mod.global_infos.get(MESHES, ())
    more = dict.fromkeys(mesh for mesh in meshes if mesh not in listed)
    if not more:
        return mod
    return replace(mod, global_infos={**mod.global_infos, MESHES: (*listed, *more)})
