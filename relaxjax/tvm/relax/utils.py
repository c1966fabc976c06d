"""Helpers of programs, where TVM has them."""

from relaxjax.ir.function import Function
from relaxjax.ir.renew import renew


def copy_with_new_vars(function: Function) -> Function:
    """A copy of a function that shares no variable with it."""
    return renew(function)[0]
