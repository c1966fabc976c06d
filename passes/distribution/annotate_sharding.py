"""Where parameters lie, by patterns of their names."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from relaxjax.ir.device_mesh import Placement
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.passes.infrastructure.base import pass_factory

from .placing import mesh_for, placement_for, with_placements


@pass_factory(opt_level=0)
def AnnotateSharding(
    mod: IRModule, rules: Mapping[str, Any], mesh: Any = None, func_name: str | None = None
) -> IRModule:
    """Say in the types of parameters where these lie on a mesh of devices, by their names.

    XLA places all other values by them, and brings what an operator needs where it is. The adjoint
    of a parameter lies where that does, if Gradient comes after this pass.

    Args:
        rules: placements by patterns of names, such as `{"w*": "R, S[1]", "*": "R, R"}`; the first
            that fits a name is taken. A placement is a text, or names the axis of the mesh for each
            dimension: `(None, "model")`, `PartitionSpec(None, "model")`.
        mesh: R.device_mesh(...), the sizes of its axes `{"data": 2, "model": 4}`, or a mesh of JAX;
            by default the one that the module lists.
        func_name: the function whose parameters are meant; by default those of all functions.
    """
    over = mesh_for(mod, mesh)
    placements = {pattern: placement_for(spec, over) for pattern, spec in rules.items()}
    functions = mod.relax_functions() if func_name is None else {func_name: mod[func_name]}
    params = [param for function in functions.values() for param in function.params]
    for pattern in placements:
        if not any(fnmatchcase(param.name, pattern) for param in params):
            names = sorted({param.name for param in params})
            raise ValueError(
                f"no parameter is called `{pattern}`{did_you_mean(pattern, names)}; there are "
                f"{', '.join(names)}"
            )
    found = {param: _first(param, placements) for param in params}
    return with_placements(mod, {p: place for p, place in found.items() if place is not None})


def _first(param: Var, placements: Mapping[str, Placement]) -> Placement | None:
    fitting = (place for pattern, place in placements.items() if fnmatchcase(param.name, pattern))
    return next(fitting, None)
