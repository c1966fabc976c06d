"""Applying laws to a function until none applies."""

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.function import Function
from relaxjax.ir.rewriting import Rules, fixed_point
from relaxjax.ir.walk import nested_bindings

from .canonicalize_bindings import canonical_bindings


def rewritten(function: Function, *tables: Rules) -> Function:
    """`function` with what laws make of its calls, without aliases and what nothing needs.

    What the laws of one table make is what those of the next one see. Where no law applies, not
    even to what nothing needs, the result is the very function.
    """
    values = [binding.value for binding in nested_bindings(function)]
    if not any(laws.concern(value) for laws in tables for value in values):
        return function
    plain = _plain(function)
    changed = _by_each(plain, tables)
    if changed is not plain:
        return _plain(changed)
    untouched = plain is function or _by_each(function, tables) is function
    return function if untouched else plain


def _by_each(function: Function, tables: tuple[Rules, ...]) -> Function:
    for laws in tables:
        function = fixed_point(function, laws)
    return function


def _plain(function: Function) -> Function:
    return remove_all_unused(canonical_bindings(function))
