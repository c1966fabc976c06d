"""How much memory a compiled program takes, as XLA tells it."""

from collections.abc import Sequence
from typing import Any

import jax

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TupleType, Type
from relaxjax.ops.lax import JaxSymbols
from relaxjax.ops.lax.avals import aval_of

from .donation import donated_params
from .interpreter import LoweringError
from .to_jax import to_jax
from .traits import needs_x64

# What a CPU's instructions are does not change where they store what they compute.
_SOON_COMPILED: dict[str, str | bool] = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
}


def temporary_bytes(mod: IRModule, name: str, donate: Sequence[str | int] = ()) -> int:
    """The bytes that a function needs beside its arguments and results, compiled for this machine.

    `donate` names parameters, or gives their positions, whose memory the results may take. Raises
    a LoweringError where a parameter has no fixed shape.
    """
    function = mod[name]
    assert isinstance(function, Function)
    with jax.enable_x64(needs_x64(mod, name)):
        args = [_abstract(param.ty, name, param.name) for param in function.params]
        donated = donated_params(function, name, donate)
        lowered = jax.jit(to_jax(mod, name), donate_argnums=donated).lower(*args)
        options = _SOON_COMPILED if jax.default_backend() == "cpu" else None
        found = lowered.compile(compiler_options=options).memory_analysis()
    if found is None:
        raise LoweringError(f"this platform does not tell how much memory `{name}` takes")
    return int(found.temp_size_in_bytes)


def _abstract(ty: Type | None, name: str, param: str) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_abstract(field, name, param) for field in ty.fields)
    value = aval_of(ty, JaxSymbols())
    if value is None or not all(isinstance(dim, int) for dim in value.shape):
        raise LoweringError(
            f"`{name}`: the parameter `{param}` is of type {ty}, but memory is known of tensors of "
            "fixed shape only: give symbolic dimensions their values before, by BindSymbolicVars"
        )
    return value
