"""A first guess at a function's memory, in one pass over its bindings."""

from collections import defaultdict

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.walk import used_vars

from ..program.loop_pairs import has_loops
from ..program.step import size_of
from ..program.waits import has_large_writes

# The predicted bytes that are worth the plan of "free" though nobody asked. The C library gets
# blocks of 32 MiB or more from the system at each step, and keeps smaller ones. By "free", losses
# of `benchmarks/drop_in.py` that take more than that take 0.94 of the CPU time, from 0.8 to 1.1,
# and smaller ones 1.05. A prediction may be an eighth too low, and the first guess an eighth below.
LARGE = 28 * 2**20
# And those that are worth a light one. What takes less lies in caches: by such a plan, a flow that
# takes 2.5 MiB takes 1.1 to 1.2 of the CPU time, and pairs that take 3.0 MiB 1.0.
SMALL = 11 * 2**18


def is_worth_a_plan(adjoint: Function) -> bool:
    """Whether it has loops, gradients that had better come one after the other, or large values."""
    if has_loops(adjoint) or has_large_writes(adjoint):
        return True
    return most_at_a_time(adjoint) >= SMALL * 7 / 8


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
