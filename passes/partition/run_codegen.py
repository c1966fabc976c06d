"""Handing regions to the backends that compile them."""

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from relaxjax.backends import Backend, get_backend
from relaxjax.ir.expr import Call, Expr, ExternFunc, GlobalVar
from relaxjax.ir.function import Function
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.structural import structural_hash
from relaxjax.ir.types import FuncType
from relaxjax.ir.walk import global_vars, rewrite
from relaxjax.ir.wording import quoted
from relaxjax.ops.packed import register_packed
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0)
def RunCodegen(
    mod: IRModule,
    target_options: Mapping[str, Mapping[str, Any]] | None = None,
    entry_functions: Sequence[str] | None = None,
) -> IRModule:
    """Let backends compile the regions made for them: a call of one becomes a call of the outcome.

    What the backend gives is a JAX function, which is registered under a name that tells the
    region and its content. The module finds it there in this process; a module that is written to
    a file is written before this pass. Nobody can differentiate through such a call unless JAX can:
    take gradients first.

    Args:
        target_options: options for backends, by their names.
        entry_functions: names of the functions whose regions are compiled, all by default.
    """
    options = target_options or {}
    for name in options:
        get_backend(name)
    entries = {mod.get_global_var(name).name for name in entry_functions or ()}
    codegen = _Codegen(mod, options)
    changed = {
        name: codegen.function(function)
        for name, function in mod.relax_functions().items()
        if name not in codegen.regions and (not entries or name in entries)
    }
    outcome = mod.with_functions(changed)
    functions = outcome.relax_functions().values()
    called = {var.name for function in functions for var in global_vars(function)}
    return outcome.without_functions(*(name for name in codegen.compiled if name not in called))


class _Codegen:
    """The regions of a module, and what backends made of those that are called."""

    def __init__(self, mod: IRModule, options: Mapping[str, Mapping[str, Any]]) -> None:
        functions = mod.relax_functions().items()
        self.regions = {name: f for name, f in functions if "Codegen" in f.attrs}
        self.options = options
        self.compiled: dict[str, ExternFunc] = {}

    def function(self, function: Function) -> Function:
        return rewrite(function, self.rule)

    def rule(self, expr: Expr) -> Expr:
        """The call of a region as a call of what it was compiled to."""
        if not isinstance(expr, Call) or not isinstance(expr.op, GlobalVar):
            return expr
        name = expr.op.name
        if name not in self.regions:
            return expr
        if name not in self.compiled:
            self.compiled[name] = _compiled(self.regions[name], name, self.options)
        ty_args = (expr.ty,) if expr.ty is not None else ()
        return infer(replace(expr, op=self.compiled[name], ty_args=ty_args))


def _compiled(
    region: Function, name: str, target_options: Mapping[str, Mapping[str, Any]]
) -> ExternFunc:
    """The outcome of a backend for a region, registered."""
    backend = get_backend(region.attrs["Codegen"])
    options = target_options.get(backend.name, {})
    content = repr((structural_hash(region), sorted(options.items(), key=lambda item: item[0])))
    digest = hashlib.sha256(content.encode()).hexdigest()[:6]
    symbol = f"{backend.name}.{name}.{digest}"
    _check_options(backend, options)
    function: Any = backend.compile(region, **options)
    if not callable(function):
        raise TypeError(
            f"the backend `{backend.name}` must give a function of JAX arrays for the region "
            f"`{name}`, but it gave {function!r}"
        )
    register_packed(symbol, override=True, traceable=True)(function)
    return ExternFunc(symbol, ty=FuncType(pure=True))


def _check_options(backend: Backend, options: Mapping[str, Any]) -> None:
    """Raise where a backend takes no such options."""
    _, *taken = inspect.signature(backend.compile).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken):
        return
    names = [one.name for one in taken]
    for name in options:
        if name not in names:
            raise TypeError(
                f"the backend `{backend.name}` has no option `{name}`: it takes "
                f"{quoted(names) or 'none'}{did_you_mean(name, names)}"
            )
