"""Values as one expression, where each is used once."""

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.nesting import nested_values


@pass_factory(opt_level=1, kind="function")
def ToGraphNormalForm(function: Function, mod: IRModule) -> Function:
    """Put each value where it is used, instead of binding it to a variable.

    What is used more than once keeps its variable, since a text has no other way to share it; so do
    choices, closures, casts, what has effects, and a value in which fifty others are nested, one in
    the other. Other passes want A-normal form: ToANormalForm restores it.
    """
    return nested_values(function)
