"""Removing what neither a result nor an effect needs."""

from collections.abc import Iterator, Sequence

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import GlobalVar
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function

from .nesting import nested_values
from .remove_unused_functions import entry_names, without_unused_functions


@pass_factory(opt_level=1)
def DeadCodeElimination(
    mod: IRModule,
    entry_functions: Sequence[str | GlobalVar] | None = None,
    inline_once: bool = False,
) -> IRModule:
    """Remove unused pure bindings, and functions that no entry function reaches.

    Bindings go in branches and closures too. An impure call stays, and so does a match_cast that
    defines a symbolic dimension still in use.

    Args:
        entry_functions: names of the functions that stay, with all that they call; by default
            every function with a global symbol.
        inline_once: whether a value that is used once is then put where it is used, as
            ToGraphNormalForm does it; ToANormalForm gives it a variable again.
    """
    entries = entry_names(mod, entry_functions)
    swept = without_unused_functions(mod.with_functions(dict(_swept(mod))), entries)
    if not inline_once:
        return swept
    return swept.with_functions({n: nested_values(f) for n, f in swept.relax_functions().items()})


def _swept(mod: IRModule) -> Iterator[tuple[str, Function]]:
    for name, function in mod.relax_functions().items():
        with in_function(name, function):
            yield name, remove_all_unused(function)
