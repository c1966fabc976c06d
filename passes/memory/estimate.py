"""A first guess at a function's memory, in one pass over its bindings."""

from collections import defaultdict

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.walk import used_vars

from .step import size_of


def most_at_a_time(function: Function) -> int:
    """The bytes of the values that are needed at a time, each stored as it is written.

    XLA needs fewer, as a rule: most values are computed inside of what reads them.
    """
    bindings = list(function.body.bindings())
    last: dict[Var, int] = {}
    for place, binding in enumerate(bindings):
        last[binding.var] = place
        last.update(dict.fromkeys(used_vars(binding.value), place))
    ends: dict[int, int] = defaultdict(int)
    live = most = 0
    for place, binding in enumerate(bindings):
        size = size_of(binding.var)
        ends[last[binding.var]] += size
        live += size
        most = max(most, live)
        live -= ends[place]
    return most
