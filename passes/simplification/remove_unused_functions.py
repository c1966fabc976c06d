"""Functions that nothing calls."""

from collections.abc import Iterable, Sequence

from relaxjax.ir.derivatives import named_functions
from relaxjax.ir.expr import GlobalVar
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.reached import reached
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=1)
def RemoveUnusedFunctions(
    mod: IRModule, entry_functions: Sequence[str | GlobalVar] | None = None
) -> IRModule:
    """Remove functions that no entry function reaches.

    Args:
        entry_functions: names of the functions that stay, with all that they call; by default
            every function with a global symbol.
    """
    return without_unused_functions(mod, entry_names(mod, entry_functions))


def entry_names(mod: IRModule, given: Sequence[str | GlobalVar] | None) -> list[str]:
    """The names of the entry functions: those given, else the public ones."""
    if given is None:
        return [name for name, function in mod.relax_functions().items() if function.global_symbol]
    names = [name_of(entry) for entry in given]
    return [mod.get_global_var(name).name for name in names]


def without_unused_functions(mod: IRModule, entries: list[str]) -> IRModule:
    """The module without the Relax functions that the entries do not reach."""
    functions = mod.relax_functions()

    def named(name: str) -> Iterable[str]:
        return named_functions(functions[name]) if name in functions else ()

    used = set(reached(entries, named))
    return mod.without_functions(*(name for name in functions if name not in used))
