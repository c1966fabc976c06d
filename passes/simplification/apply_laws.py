"""Applying laws to a function until none applies."""

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.function import Function
from relaxjax.ir.rewriting import Rules, fixed_point

from .canonicalize_bindings import canonical_bindings


def rewritten(function: Function, *tables: Rules) -> Function:
    """`function` with what laws make of its calls, without aliases and what nothing needs.

    What the laws of one table make is what those of the next one see. Where no law applies, the
    result is the very function.
    """
    while (changed := _by_each(function, tables)) is not function:
        function = remove_all_unused(canonical_bindings(changed))
        if function is changed and len(tables) == 1:  # which have come to their end
            break
    return function


def _by_each(function: Function, tables: tuple[Rules, ...]) -> Function:
    for laws in tables:
        function = fixed_point(function, laws)
    return function
