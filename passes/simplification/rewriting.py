"""Applying a law to the calls of a function until it applies to none."""

from functools import partial
from typing import Protocol

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.uses import Uses

from .canonicalize_bindings import canonical_bindings


class Law(Protocol):
    """What becomes of a call, None where it stays; `known` tells what variables stand for."""

    def __call__(self, call: Call, /, known: Uses) -> Expr | None: ...


def rewritten(function: Function, law: Law) -> Function:
    """`function` with what `law` makes of each call, again and again until it gives None for all.

    Where it gives None at once, the result is the very function.
    """
    while True:
        expanded = expand_calls(function, partial(law, known=Uses.of(function)))
        if expanded is function:
            return function
        function = remove_all_unused(canonical_bindings(expanded))
