"""What XLA decides of where values lie, written into the program."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from relaxjax.ir.builder import make_function
from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.device_mesh import MESHES, DeviceMesh, Placement
from relaxjax.ir.expr import Tuple, Var
from relaxjax.ir.function import Binding, Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import map_bindings, substitute
from relaxjax.lowering import to_jax
from relaxjax.ops.lax import JaxSymbols, aval_of
from relaxjax.ops.meshes import parts_values
from relaxjax.passes.infrastructure.base import pass_factory

from .placing import mesh_for, model_of, placement_for


@pass_factory(opt_level=0)
def PropagateSharding(mod: IRModule, mesh: Any = None, func_name: str | None = None) -> IRModule:
    """Write down where XLA puts each value, by what the program says of some.

    The function is compiled for the devices of the mesh, with all of its values as results, and the
    types of these say afterwards where they were. They tell, and ask for nothing: other passes may
    drop them, and XLA is bound by what the program said before, and by no more.

    Values inside loops, branches and called functions stay as they are, and so do those that XLA
    parts in a way that a placement cannot say. On one device, and in a module without meshes,
    nothing is parted, and the module stays as it is.

    Args:
        mesh: as in AnnotateSharding. Its devices must be there; those of a CPU can be virtual ones.
        func_name: the function, by default `backbone` or `main`. Its sizes must be numbers.
    """
    if func_name is not None:
        mod.get_global_var(func_name)  # an unknown one is an error wherever values lie
    if mesh is None and not mod.global_infos.get(MESHES):
        return mod
    over = mesh_for(mod, mesh)
    name, function = model_of(mod, func_name)
    if not parts_values(over):
        return mod
    shown = [var for var in _bound(function) if isinstance(var.ty, TensorType)]
    decided = zip(shown, _shardings(mod, name, function), strict=True)
    found = {var: _placement(sharding, over) for var, sharding in decided}
    places = {var: place for var, place in found.items() if place is not None}
    return mod.with_function(name, _with_types(function, places))


def _bound(function: Function) -> list[Var]:
    return [binding.var for binding in function.body.bindings()]


def _shardings(mod: IRModule, name: str, function: Function) -> Sequence[Any]:
    """Where the values of a function are in the compiled program, in order."""
    whole = without_dataflow(function)  # whose blocks hide no value
    shown = [var for var in _bound(whole) if isinstance(var.ty, TensorType)]
    for var in (*function.params, *shown):
        _check_sizes(name, var)
    body = SeqExpr(whole.body.blocks, Tuple(tuple(shown)))
    made = make_function(whole.params, body, ret_ty=body.body.ty, attrs=whole.attrs)
    program = to_jax(mod.with_function(name, made), name)
    given = (aval_of(param.ty, JaxSymbols()) for param in whole.params)
    compiled = jax.jit(program).lower(*given).compile()
    shardings: Sequence[Any] = jax.tree.leaves(compiled.output_shardings)
    return shardings


def _check_sizes(name: str, var: Var) -> None:
    ty = var.ty
    if not isinstance(ty, TensorType):
        raise TypeError(f"`{name}`: the parameter `{var.name}` must be a tensor, found {ty}")
    if ty.dtype is None or static_dims(ty) is None:
        raise ValueError(
            f"`{name}`: the sizes of `{var.name}` must be numbers, found {ty}: BindSymbolicVars "
            "says what they are"
        )


def _placement(sharding: Any, mesh: DeviceMesh) -> Placement | None:
    """A sharding of JAX as a placement, None where a placement cannot say it."""
    if not isinstance(sharding, NamedSharding) or sharding.mesh.axis_names != mesh.axes:
        return None
    try:
        return placement_for(sharding.spec, mesh)
    except ValueError:
        return None


def _with_types(function: Function, places: Mapping[Var, Placement]) -> Function:
    """A function whose variables say where they lie."""
    new = {}
    for var, place in places.items():
        assert isinstance(var.ty, TensorType)
        if var.ty.placement != place:
            new[var] = type(var)(var.name, replace(var.ty, placement=place), span=var.span)
    if not new:
        return function

    def named_anew(binding: Binding) -> Binding:
        return replace(binding, var=new.get(binding.var, binding.var))

    body = substitute(map_bindings(function.body, named_anew), new)
    return replace(function, body=body)
