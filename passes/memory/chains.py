"""Keeping a value now and then where sums of sums would be computed again from ever more values."""

from relaxjax.ir.expr import Var

from .program import Program

# From so many kept values one is computed again at most, so that every third sum of a ResNet's
# blocks is kept. XLA writes out a chain again in each kernel that reads a part of it: the kernels
# of ResNet-50 that have to be compiled have 1.17 times as many operations with no limit.
_MOST = 3


def with_short_chains(program: Program, kept: frozenset[Var]) -> frozenset[Var]:
    """`kept`, and what else must be so that few values suffice to compute any other again."""
    # The largest that a value is computed from again: no more of them decide whether it is kept.
    sources: dict[Var, tuple[Var, ...]] = {}
    more = set(kept)
    for step in program.forward:
        found = dict.fromkeys(var for read in step.inputs for var in sources.get(read, ()))
        largest = sorted(found, key=lambda var: -program.step_of[var].size)[: _MOST + 1]
        large = [var for var in largest if 2 * program.step_of[var].size >= step.size]
        if step.size and not step.is_view and len(large) > _MOST:
            more.add(step.var)
        sources[step.var] = (step.var,) if step.var in more else tuple(largest)
    return frozenset(more)
