"""Making expressions simpler by the laws of algebra."""

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory

from .algebra import LAWS
from .apply_laws import rewritten


@pass_factory(opt_level=0, kind="function")
def SimplifyExpr(function: Function, mod: IRModule) -> Function:
    """Apply the laws of algebra until none applies: x * 1 = x, x + 0 = x, -(-x) = x and so on.

    `passes/simplification/algebra.py` is the table of them. They hold for finite numbers.
    """
    return rewritten(function, LAWS)
