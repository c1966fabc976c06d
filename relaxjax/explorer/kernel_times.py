"""How long the bindings of a function take: the kernels of its program, joined with its names."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import variable_names
from relaxjax.lowering import to_jax
from relaxjax.lowering.profile import profiled
from relaxjax.lowering.scopes import bindings_by_scope, scopes_in
from relaxjax.lowering.trial import wide_enough_for

from .document import Kernel, Profile
from .inputs import Inputs


def profile_of(mod: IRModule, name: str, inputs: Inputs) -> Profile:
    """Compile a function of a module, run it, and tell what its kernels take."""
    function = mod[name]
    assert isinstance(function, Function)
    names, bindings = variable_names(function), bindings_by_scope(mod)
    with wide_enough_for(inputs.arrays):
        found = profiled(to_jax(mod, name), *inputs.arrays)
    own = {
        scope: names.get(binding.var, binding.var.name)
        for scope, binding in bindings.items()
        if scope.startswith(f"{name}.")
    }
    kernels = tuple(
        Kernel(one.name, round(one.milliseconds, 6), one.times, _computed(one.places, own))
        for one in found.kernels
    )
    return Profile(found.device, inputs.origin, found.runs, found.milliseconds, kernels)


def _computed(places: Sequence[str], own: Mapping[str, str]) -> tuple[str, ...]:
    """The bindings that places lie in; not those around others, such as a loop's."""
    paths = [scopes_in(place, own) for place in places]
    around = {scope for path in paths for scope in path[:-1]}
    inner = dict.fromkeys(path[-1] for path in paths if path)
    return tuple(own[scope] for scope in inner if scope not in around)
