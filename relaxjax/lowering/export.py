"""Functions of a module as artifacts that run without this package: jax.export, StableHLO."""

import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax import export as jax_export
from jax import lax

from relaxjax.ir.expr import Expr, ExternFunc, Var
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.structural import structural_equal
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import post_order
from relaxjax.ir.whole_file import write_whole
from relaxjax.ops.lax import JaxSymbols, aval_of
from relaxjax.ops.nn.accelerated_attention import written_out
from relaxjax.ops.packed import HeldName
from relaxjax.ops.platform import PLATFORM, chosen_platform

from .interpreter import LoweringError
from .legalize import legalize
from .selection import selected, single, with_called
from .target import Target, platform_of
from .to_jax import to_jax, to_jax_for
from .traits import compiles, needs_x64, reachable

_ALL = ("cpu", "cuda", "tpu")
SUFFIX = ".jax_export"
# An artifact holds each derivative that it can give, each nearly twice as large as the one before.
_MOST_DERIVATIVES = 12
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # in every archive alike, so that equal ones are equal files
_PLACE = re.compile(r' loc\((?:#\w+|unknown|"[^"]*")\)')


def export(
    mod: IRModule,
    path: str | os.PathLike[str],
    functions: str | Sequence[str] | None = None,
    *,
    platforms: Sequence[str] | None = None,
    vjp_order: int = 0,
) -> dict[str, jax_export.Exported]:
    """Write functions of a module as artifacts of `jax.export`, and give these by name.

    One function is a file that `jax.export.deserialize` reads; several are a zip archive with such
    a file for each, `<name>.jax_export`. Symbolic dimensions stay symbolic. Tensors and tuples of
    tensors go in and come out.

    Args:
        mod: the module.
        path: the file to write, whole or not at all.
        functions: the names of functions; all public ones unless it is given.
        platforms: where the artifacts can run: "cpu", "cuda" and "tpu" unless it is given, but
            where the module is made for one platform, there alone.
        vjp_order: how often they can be differentiated by JAX after they are loaded, up to 12
            times: each derivative lies in the file, nearly twice as large as the one before.
    """
    check_vjp_order("vjp_order", vjp_order)
    exported = {name: exported_function(mod, name, platforms) for name in selected(mod, functions)}
    files = {name: bytes(item.serialize(vjp_order)) for name, item in exported.items()}
    write_whole(path, _zipped(files) if len(files) > 1 else next(iter(files.values())))
    return exported


def check_vjp_order(option: str, vjp_order: object) -> None:
    """Refuse an order that is none, or whose file would take very long to write."""
    is_whole = isinstance(vjp_order, int) and not isinstance(vjp_order, bool)
    if not is_whole or vjp_order not in range(_MOST_DERIVATIVES + 1):
        raise ValueError(
            f"`{option}` must be a whole number from 0 to {_MOST_DERIVATIVES}, "
            f"found {vjp_order!r}: the file holds each derivative, nearly twice as large as the "
            "one before"
        )


def to_mlir(mod: IRModule, function: str | None = None, target: Target | None = None) -> str:
    """A function as the text of a StableHLO module; symbolic dimensions are dynamic ones there.

    Args:
        mod: the module.
        function: the name of the function; the only public one unless it is given.
        target: for which platform to lower: unless it is given, that which the module is made for,
            else that of JAX's default device.
    """
    check_module(mod, "writing functions out")
    default = mod.attrs.get(PLATFORM) or chosen_platform()
    platforms = [default if target is None else platform_of(target)]
    text = exported_function(mod, single(mod, function), platforms).mlir_module()
    lines = _PLACE.sub("", text).splitlines()
    return "\n".join([*(line for line in lines if not line.startswith("#loc")), ""])


def exported_function(
    mod: IRModule, name: str, platforms: Sequence[str] | None = None
) -> jax_export.Exported:
    """One function as an artifact of `jax.export` in memory."""
    _check(mod, name)
    params, known = mod[name].params, _platforms(mod, platforms)
    symbols = JaxSymbols()
    args = [_abstract(param, param.ty, symbols, name) for param in params]
    with jax.enable_x64(needs_x64(mod, name)), written_out(), _no_places():
        run = _program(with_called(mod, selected(mod, name), derivatives=True), name, known)
        traced = jax_export.export(jax.jit(run), platforms=known)
        try:
            return traced(*args)
        except Exception as error:
            raise LoweringError(f"`{name}` cannot be exported: {error}") from error


def _program(mod: IRModule, name: str, platforms: Sequence[str]) -> Callable[..., Any]:
    """A function as JAX's, legalised for each platform; several forms of it lie side by side."""
    made = {platform: legalize(mod, platform) for platform in platforms}
    forms = {platform: form.without_attr(PLATFORM) for platform, form in made.items()}
    first, *others = forms.values()
    if all(structural_equal(first, other) for other in others):
        return to_jax(first, name)
    programs = {platform: to_jax_for(platform, form, name) for platform, form in forms.items()}

    def run(*args: Any) -> Any:
        return lax.platform_dependent(*args, **programs)

    run.__name__ = name
    return run


def _check(mod: IRModule, name: str) -> None:
    """Raise where a function is more than one compiled program can be."""
    selected(mod, name)
    if not compiles(mod, name):
        raise LoweringError(
            f"`{name}` cannot be exported, because it is not one compiled program: it calls "
            "itself, a Python function or an operator that needs values, it has branches of "
            "different shapes or dtypes, or it gives other things "
            f"than tensors: {mod[name].ret_ty}"
        )
    for called, function in reachable(mod, name):
        if not function.pure:
            raise LoweringError(
                f"`{name}` cannot be exported, because `{called}` is impure: "
                "an artifact cannot print or stop a program"
            )
        if any(map(_asks_python, post_order(function))):
            raise LoweringError(
                f"`{name}` cannot be exported, because `{called}` calls Python, as by "
                "jax.pure_callback: no artifact holds a function of Python; compute it in JAX, or "
                "give its results as an argument"
            )


def _asks_python(expr: Expr) -> bool:
    return isinstance(expr, ExternFunc) and isinstance(expr.symbol, HeldName)


def _abstract(param: Var, ty: Type | None, symbols: JaxSymbols, name: str) -> Any:
    """The abstract value of a parameter."""
    if isinstance(ty, TupleType):
        return tuple(_abstract(param, field, symbols, name) for field in ty.fields)
    value = aval_of(ty, symbols)
    if value is not None:
        return value
    if isinstance(ty, TensorType):
        mend = "give it a shape and a dtype; symbolic dimensions are fine"
    else:
        mend = "an exported function takes tensors, and tuples of them"
    raise LoweringError(f"`{name}`: the parameter `{param.name}` is of type {ty}: {mend}")


def _platforms(mod: IRModule, names: Sequence[str] | None) -> list[str]:
    """Platforms by the names that JAX lowers for; "gpu" is NVIDIA's."""
    if names is None:
        names = [mod.attrs[PLATFORM]] if PLATFORM in mod.attrs else _ALL
    if not isinstance(names, list | tuple) or not names:
        raise TypeError(f"`platforms` must be a list of names, found {names!r}")
    known = (platform_of(name) for name in names)
    return list(dict.fromkeys("cuda" if name == "gpu" else name for name in known))


@contextmanager
def _no_places() -> Iterator[None]:
    """Leave out which line of this package each operation comes from: it says nothing elsewhere."""
    name = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, name)
    jax.config.update(name, 0)
    try:
        yield
    finally:
        jax.config.update(name, before)


def _zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(f"{name}{SUFFIX}", _FIRST_DAY), data)
    return content.getvalue()
