"""How much memory a compiled program takes, as XLA tells it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax

from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TupleType, Type
from relaxjax.ops.lax import JaxSymbols
from relaxjax.ops.lax.avals import aval_of
from relaxjax.ops.platform import (
    PLATFORM,
    chosen_platform,
    default_device,
    lowering_for,
    platform_name,
)
from relaxjax.trainable.gathering import with_gathered_params
from relaxjax.trainable.names import TRAIN_STEP
from relaxjax.trainable.sharding import Distribution, shardings_of_step

from .donation import donated_params
from .interpreter import LoweringError, NoCompilerError
from .target import agree, device
from .to_jax import runnable, to_jax
from .traits import needs_x64

# What a CPU's instructions are does not change where they store what they compute.
_SOON_COMPILED: dict[str, str | bool] = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
}


def temporary_bytes(mod: IRModule, name: str, donate: Sequence[str | int] = ()) -> int:
    """The bytes that a function needs beside its arguments and results, by the compiler.

    That is the one of the platform that the module is made for, else of the one lowered for.
    `donate` names parameters, or gives their positions, whose memory the results may take. Raises
    a LoweringError where a parameter has no fixed shape.
    """
    with _counting(mod, name) as platform:
        return compiled_bytes(_lowered(mod, name, donate), name, platform)


def compiled_step(mod: IRModule) -> jax.stages.Compiled:
    """A module's training step, which takes the memory of its state, as its trainer compiles it."""
    with _counting(mod, TRAIN_STEP) as platform:
        options = _SOON_COMPILED if platform == "cpu" else None
        return _lowered(mod, TRAIN_STEP, (0, 1, 2)).compile(compiler_options=options)


def lowered_text(mod: IRModule, name: str, donate: Sequence[str | int] = ()) -> str:
    """The function as `temporary_bytes` has it compiled, for which platform, and by which flags."""
    with _counting(mod, name) as platform:
        flags = os.environ.get("XLA_FLAGS", "")
        return f"{platform} {flags} {_lowered(mod, name, donate).as_text()}"


@contextmanager
def _counting(mod: IRModule, name: str) -> Iterator[str]:
    """The context in which what a module needs is counted, and the platform."""
    platform = mod.attrs.get(PLATFORM) or chosen_platform()
    with (
        jax.enable_x64(needs_x64(mod, name)),
        jax.default_device(_counting_device(platform)),
        lowering_for(platform),
    ):
        yield platform


def _lowered(mod: IRModule, name: str, donate: Sequence[str | int]) -> jax.stages.Lowered:
    function = runnable(mod, name)
    args = [_abstract(param.ty, name, param.name) for param in function.params]
    donated = donated_params(function, name, donate)
    spread = Distribution.of(mod)
    if spread is None or name != TRAIN_STEP:
        return jax.jit(to_jax(mod, name), donate_argnums=donated).lower(*args)
    mesh = spread.mesh(jax.devices(mod.attrs.get(PLATFORM) or chosen_platform()))
    taken, given = shardings_of_step(mod, spread, mesh)
    assert isinstance(function.ret_ty, TupleType)
    others = [None] * (len(function.ret_ty.fields) - len(given))  # XLA places them
    step = to_jax(with_gathered_params(mod, mesh), name)
    run = jax.jit(step, donate_argnums=donated, out_shardings=(*given, *others))
    return run.lower(*map(_placed, args, taken))


def _placed(arg: Any, shardings: Any) -> Any:
    """The types of an argument, or of a tuple of them, with their shardings."""
    if isinstance(arg, tuple):
        return tuple(map(_placed, arg, shardings))
    return jax.ShapeDtypeStruct(arg.shape, arg.dtype, sharding=shardings)


def compiled_bytes(lowered: jax.stages.Lowered, name: str, platform: str | None = None) -> int:
    """The same of a lowered program, for a platform: JAX's default, unless it is given."""
    platform = platform or chosen_platform()
    options = _SOON_COMPILED if platform == "cpu" else None
    found = lowered.compile(compiler_options=options).memory_analysis()
    if found is None:
        raise LoweringError(f"{platform} does not tell how much memory `{name}` takes")
    return int(found.temp_size_in_bytes)


def _counting_device(platform: str) -> jax.Device:
    """A device whose compiler tells what programs for a platform take."""
    here = default_device()
    if agree(platform, platform_name(here)):
        return here
    try:
        return device(platform)
    except ValueError as error:
        raise NoCompilerError(
            f"what memory a program takes on {platform} is told by the compiler for it: {error}. "
            "Plan it where one is, or for JAX's default device, or without a budget"
        ) from None


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
