"""Placing every operator on a device, with copies where values cross."""

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import operator_name
from relaxjax.ir.types import device_name
from relaxjax.ir.walk import nested_bindings
from relaxjax.passes.infrastructure.base import pass_factory

from .relocation import HINT, MOVE, Relocation, destination, known_device, with_agreeing_calls


@pass_factory(opt_level=0)
def RewriteAnnotatedOps(mod: IRModule, fallback_device: str | VDevice) -> IRModule:
    """Compute each value that a hint names on the hint's device, and all others on a fallback.

    Where an operator's argument is on another device `R.to_vdevice` brings it. Devices that the
    module does not list yet are added to its list. A function without hints stays as it is.

    Args:
        fallback_device: a device such as "cpu" or "cuda:1", or one of the module's list.
    """
    given = fallback_device.name if isinstance(fallback_device, VDevice) else fallback_device
    fallback = known_device(mod, device_name(given))
    changed = {name: _placed(mod, f, fallback) for name, f in mod.relax_functions().items()}
    placed = mod.with_functions(changed)
    return mod if placed is mod else with_agreeing_calls(_with_listed(placed, fallback))


def _placed(mod: IRModule, function: Function, fallback: str) -> Function:
    """`function` with its values on devices."""
    hinted: dict[Expr, str] = {}
    moved: dict[Expr, str] = {}
    for binding in nested_bindings(function):
        if not isinstance(binding.value, Call):
            continue
        if operator_name(binding.value) == HINT:
            hinted.setdefault(binding.value.args[0], destination(mod, binding.value))
        if operator_name(binding.value) in (HINT, MOVE):
            moved[binding.var] = destination(mod, binding.value)

    def device_of(var: Var) -> str:
        return moved.get(var) or hinted.get(var) or fallback

    if not hinted:
        return function
    return Relocation(mod, device_of, copies=True).function(function)


def _with_listed(mod: IRModule, fallback: str) -> IRModule:
    """`mod` with the fallback and all devices that moves name in its list."""
    infos = mod.global_infos.get("vdevice", ())
    named = [
        destination(mod, binding.value)
        for function in mod.relax_functions().values()
        for binding in nested_bindings(function)
        if isinstance(binding.value, Call) and operator_name(binding.value) == MOVE
    ]
    new = dict.fromkeys((fallback, *named)).keys() - {info.name for info in infos}
    if not new:
        return mod
    parts = [name.split(":") for name in (fallback, *named) if name in new]
    added = dict.fromkeys(VDevice(kind, int(index), scope) for kind, index, scope in parts)
    return replace(mod, global_infos={**mod.global_infos, "vdevice": (*infos, *added)})
