"""Building a module: its functions legalised, and compiled when they are called."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax

from relaxjax.ir.explorable import Explorable
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.tables import html_lines, html_table

from .compiled import CompiledFunction
from .donation import donated_params
from .legalize import legalize
from .target import Place, Target, place_for, platform_of
from .to_jax import runnable, to_jax
from .traits import has_symbols, needs_x64


def build(
    mod: IRModule, target: Target | None = None, *, legalized: bool = True, cache_size: int = 32
) -> "Executable":
    """Make a module ready to run.

    Args:
        mod: the module.
        target: "cpu" or "llvm", "cuda" or "gpu", "tpu", a JAX device, or a sharding for all
            arguments; unless it is given, where the module is made for, else JAX's default device.
        legalized: whether to run `LegalizeOps` first, so that what runs is what it prints. A
            function with symbolic dimensions is legalised for the sizes of each call; the module of
            the executable has a form of it for all of them.
        cache_size: how many compiled programs each function keeps, one for each set of shapes.
    """
    check_module(mod, "`build`")
    if cache_size < 1:
        raise ValueError(f"`cache_size` must be at least 1, found {cache_size}")
    place = place_for(mod, target)
    if not legalized:
        return Executable(mod, place, cache_size)
    return Executable(legalize(mod, platform_of(place)), place, cache_size, mod)


compile = build  # the name it has in TVM


class Executable(Explorable):
    """A built module: `executable["f"](*args)` runs the function `f`."""

    def __init__(
        self, mod: IRModule, target: Place, cache_size: int, source: IRModule | None = None
    ) -> None:
        self.mod = mod
        self.source = source
        self.target = target
        self.cache_size = cache_size
        self.known_as = ""  # what its programs are kept by on disk, unless by their text
        self._functions: dict[str, CompiledFunction] = {}

    def __getitem__(self, name: str) -> CompiledFunction:
        if name not in self._functions:
            self._functions[name] = self.compiled(name)
        return self._functions[name]

    def __contains__(self, name: str) -> bool:
        return name in self.mod

    def __iter__(self) -> Iterator[str]:
        return iter(self.mod.relax_functions())

    def compiled(
        self, name: str, place: Target | None = None, donate: Sequence[str | int] = ()
    ) -> CompiledFunction:
        """The function `name`, for another place than the target's if one is given.

        `donate` names parameters, or gives their positions, whose memory the results may take.
        """
        runnable(self.mod, name)
        where = place_for(self.mod, self.target if place is None else place)
        source = self.source if has_symbols(self.mod, name) else None
        return CompiledFunction(self.mod, name, where, self.cache_size, donate, source)

    def jit(self, name: str, donate: Sequence[str | int] = ()) -> Callable[..., Any]:
        """The function `name` under plain `jax.jit`: the least that a call can cost.

        It takes arrays only, which are checked when it is traced; `donate` is as for `compiled`. It
        runs where its arrays lie.
        """
        function = runnable(self.mod, name)
        donated = donated_params(function, name, donate)
        jitted = jax.jit(to_jax(self.mod, name), donate_argnums=donated)
        return partial(_with_x64, jitted) if needs_x64(self.mod, name) else jitted

    def __repr__(self) -> str:
        return f"Executable({', '.join(self)}; target={self.target!r})"

    def _repr_html_(self) -> str:
        functions = self.mod.relax_functions().items()
        rows = [
            (name, ", ".join(f"{p.name}: {p.ty}" for p in each.params), str(each.ret_ty))
            for name, each in functions
        ]
        head = f"Executable for {self.target}"
        return (
            f"<div>{html_lines([head])}{html_table([('function', 'takes', 'gives'), *rows])}</div>"
        )


def _with_x64(function: Callable[..., Any], *args: Any) -> Any:
    with jax.enable_x64(True):
        return function(*args)
