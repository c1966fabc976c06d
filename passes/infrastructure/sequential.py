"""Passes one after the other, as far as the context lets them run."""

import inspect
from collections.abc import Sequence
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean

from .base import FACTORIES
from .context import PassContext
from .info import PassInfo, pass_names
from .kinds import Pass


class Sequential(Pass):
    """Runs passes in order; those that the current context does not enable are left out.

    What a pass requires runs before it, unless it has run in this sequence already. The passes
    it names are found among those of this sequence and those declared with `pass_factory`.
    """

    def __init__(
        self,
        passes: Sequence[Pass] = (),
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        required_names = pass_names("required", required)
        super().__init__(PassInfo(opt_level, name, required_names, traceable))
        self.passes = tuple(map(_checked_pass, _several(passes)))

    def transform(self, mod: IRModule, context: PassContext) -> Any:
        done: set[str] = set()
        for item in self.passes:
            if context.pass_enabled(item.info):
                mod = self._run(item, mod, context, done, ())
        return mod

    def _run(
        self,
        item: Pass,
        mod: IRModule,
        context: PassContext,
        done: set[str],
        waiting: tuple[str, ...],
    ) -> IRModule:
        """Run a pass after what it requires; `waiting` are the passes that require it."""
        waiting = (*waiting, item.info.name)
        for name in item.info.required:
            if name in waiting:
                circle = " -> ".join(f"`{passed}`" for passed in (*waiting, name))
                raise ValueError(f"passes require one another in a circle: {circle}")
            if name not in done:
                prerequisite = self._prerequisite(name, item.info.name, context)
                mod = self._run(prerequisite, mod, context, done, waiting)
        done.add(item.info.name)
        return item(mod)

    def _prerequisite(self, name: str, wanting: str, context: PassContext) -> Pass:
        """The pass called `name`, which another pass requires."""
        if name in context.disabled_pass:
            raise ValueError(
                f"the pass `{wanting}` requires `{name}`, which the context disables: "
                f"disable `{wanting}` too, or neither of them"
            )
        for item in self.passes:
            if item.info.name == name:
                return item
        return _made_without_options(name, wanting)

    def __repr__(self) -> str:
        return f"Sequential({list(self.passes)!r})"


def _made_without_options(name: str, wanting: str) -> Pass:
    if name not in FACTORIES:
        raise ValueError(
            f"the pass `{wanting}` requires `{name}`, but no pass of this name is declared "
            f"or in the sequence{did_you_mean(name, list(FACTORIES))}"
        )
    factory = FACTORIES[name]
    needed = [
        f"`{parameter.name}`"
        for parameter in factory.parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    if needed:
        raise ValueError(
            f"the pass `{wanting}` requires `{name}`, which cannot be made without its "
            f"{'option' if len(needed) == 1 else 'options'} {', '.join(needed)}: "
            f"put `{name}(...)` into the sequence"
        )
    return factory()


def _several(passes: Any) -> Sequence[Any]:
    if isinstance(passes, list | tuple):
        return passes
    raise TypeError(f"`Sequential` takes a list of passes, found {passes!r}")


def _checked_pass(item: Any) -> Pass:
    if isinstance(item, Pass):
        return item
    name = getattr(item, "__name__", None)
    declared = name in FACTORIES or (isinstance(item, type) and issubclass(item, Pass))
    mend = f": write `{name}(...)`" if declared else ""
    raise TypeError(f"`Sequential` takes passes, found {item!r}{mend}")
