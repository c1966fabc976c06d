"""Symbolic dimensions fixed to numbers."""

from collections.abc import Mapping
from typing import Any

from relaxjax.ir.bind import refuse_symbol, symbols_by_key, symbols_called
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory

from .callers import with_callers


@pass_factory(opt_level=1)
def BindSymbolicVars(
    mod: IRModule, binding_map: Mapping[Any, Any], func_name: str | None = None
) -> IRModule:
    """Replace symbolic dimensions by numbers, or by other dimensions.

    Args:
        binding_map: the value of each dimension, by its name or by the dimension itself.
        func_name: the function in which they are replaced, by default all that have them.
    """
    if func_name is not None:
        function = mod[func_name]
        return with_callers(mod, {func_name: function.bind_symbolic_vars(binding_map)})
    functions = mod.relax_functions()
    own = {name: _own(function, binding_map) for name, function in functions.items()}
    unknown = [key for key in binding_map if not any(key in keys for keys in own.values())]
    if unknown:
        names = {f"{key}" for function in functions.values() for key in symbols_by_key(function)}
        refuse_symbol("no function has a", unknown[0], sorted(names))
    changed = {n: functions[n].bind_symbolic_vars(keys) for n, keys in own.items() if keys}
    return with_callers(mod, changed)


def _own(
    function: Function, binding_map: Mapping[str | SymbolicVar, Any]
) -> dict[str | SymbolicVar, Any]:
    """What the map says of dimensions that a function has."""
    called = symbols_by_key(function)
    return {key: dim for key, dim in binding_map.items() if symbols_called(called, key)}
