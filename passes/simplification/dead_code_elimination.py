"""Removing what neither a result nor an effect needs."""

from collections.abc import Iterator, Sequence

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import GlobalVar
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.walk import global_vars
from relaxjax.passes.base import pass_factory
from relaxjax.passes.notes import in_function


@pass_factory(opt_level=1)
def DeadCodeElimination(
    mod: IRModule, entry_functions: Sequence[str | GlobalVar] | None = None
) -> IRModule:
    """Remove unused pure bindings, and functions that no entry function reaches.

    Bindings go in branches and closures too. An impure call stays, and so does a match_cast that
    defines a symbolic dimension still in use.

    Args:
        entry_functions: names of the functions that stay, with all that they call; by default
            every function with a global symbol.
    """
    entries = _entries(mod, entry_functions)
    swept = mod.with_functions(dict(_swept(mod)))
    reached = _reached(swept, entries)
    unused = [name for name in swept.relax_functions() if name not in reached]
    return swept.without_functions(*unused)


def _entries(mod: IRModule, given: Sequence[str | GlobalVar] | None) -> list[str]:
    if given is None:
        return [name for name, function in mod.relax_functions().items() if function.global_symbol]
    names = [entry.name if isinstance(entry, GlobalVar) else entry for entry in given]
    return [mod.get_global_var(name).name for name in names]


def _swept(mod: IRModule) -> Iterator[tuple[str, Function]]:
    for name, function in mod.relax_functions().items():
        with in_function(name, function):
            yield name, remove_all_unused(function)


def _reached(mod: IRModule, entries: list[str]) -> set[str]:
    functions = mod.relax_functions()
    reached, waiting = set(entries), list(entries)
    while waiting:
        name = waiting.pop()
        called = global_vars(functions[name]) if name in functions else ()
        new = [var.name for var in called if var.name not in reached]
        reached.update(new)
        waiting += new
    return reached
