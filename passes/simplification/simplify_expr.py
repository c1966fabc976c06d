"""Making expressions simpler by the laws of algebra."""

from functools import partial

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.base import pass_factory

from .algebra import simpler
from .canonicalize_bindings import canonical_bindings
from .definitions import Definitions


@pass_factory(opt_level=0, kind="function")
def SimplifyExpr(function: Function, mod: IRModule) -> Function:
    """Apply the laws of algebra until none applies: x * 1 = x, x + 0 = x, -(-x) = x and so on.

    `passes/simplification/algebra.py` is the table of them. They hold for finite numbers.
    """
    while True:
        expanded = expand_calls(function, partial(simpler, known=Definitions.of(function)))
        if expanded is function:
            return function
        function = remove_all_unused(canonical_bindings(expanded))
