"""`tvm.compile` and `relax.build`, with the options that TVM has for them."""

from collections.abc import Callable, Mapping
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.lowering import Executable
from relaxjax.lowering import build as build_module

from .scope import OutOfScopeNameError

_MODES = ("bytecode", "compiled")


class VMExecutable(Executable):
    """A built module by the name that TVM has for it."""

    def export_library(self, file_name: str, *args: Any, **options: Any) -> None:
        """There is nothing like it: an error that says what to call."""
        raise OutOfScopeNameError(
            "there are no libraries of machine code here: `relaxjax.lowering.export(mod, "
            f'"{file_name}")` writes an artifact that JAX runs, and `tvm.ir.save_json(mod)` the '
            "module itself"
        )


def build(
    mod: IRModule,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    relax_pipeline: str | Callable[[IRModule], IRModule] | None = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "bytecode",
    **options: Any,
) -> VMExecutable:
    """Make a module ready to run, as `relaxjax.lowering.build` does.

    Args:
        mod: the module.
        target: what it is built for.
        params: no parameters are linked into what is built: `BindParams` makes them constants.
        relax_pipeline: a pass to apply first; TVM's own lower a program, which XLA does here.
        tir_pipeline: there are no TensorIR functions to apply it to.
        exec_mode: "bytecode" and "compiled" are the same here, where XLA compiles.
        options: those of `relaxjax.lowering.build`.
    """
    if params:
        raise ValueError(
            "`params` are not linked into what is built: make them constants by "
            '`relax.transform.BindParams("main", params)(mod)`'
        )
    if exec_mode not in _MODES:
        raise ValueError(f"`exec_mode` is one of {', '.join(_MODES)}, found {exec_mode!r}")
    if callable(relax_pipeline):
        mod = relax_pipeline(mod)
    built = build_module(mod, target, **options)
    return VMExecutable(built.mod, built.target, built.cache_size, built.source)


def compile(
    mod: IRModule,
    target: Any = None,
    *,
    relax_pipeline: str | Callable[[IRModule], IRModule] | None = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "bytecode",
    **options: Any,
) -> VMExecutable:
    """Make a module ready to run, by the name that TVM has for it."""
    return build(mod, target, None, relax_pipeline, tir_pipeline, exec_mode, **options)
