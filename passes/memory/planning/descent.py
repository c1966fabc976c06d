"""Plans of smaller peaks: of what is there at the peak, one value after another is computed again.

Plans of segments have their cuts where few bytes cross, and compute all between two cuts again or
nothing. The peak may need less: one value alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice

from relaxjax.ir.expr import Var

from .plan import Plan

# The part of a peak that a step is to come below. Steps that are above it count, not the highest
# alone: in equal layers one value less changes one of many peaks.
_BELOW = 0.9
# How many values are tried for a step, those first that are the most bytes above that part. Smaller
# ones than this share of the peak are not.
_TRIED = 24
_SMALLEST = 1 / 64


def lowered(
    plan: Plan,
    without: Callable[[Plan, Var], Plan | None],
    allowed: Callable[[Plan], bool],
    tries: int,
) -> Plan:
    """The plan of the smallest peak on the way down from `plan`, for which so many are tried."""
    best = plan
    while tries > 0:
        limit = int(_BELOW * best.peak)
        others = (without(plan, var) for var in _at_the_peak(plan, limit))
        tried = list(islice(filter(None, others), min(_TRIED, tries)))
        tries -= len(tried)
        found = min(filter(allowed, tried), key=lambda other: _worth(other, limit), default=plan)
        if _worth(found, limit) >= _worth(plan, limit):
            break
        plan = found
        best = min(best, plan, key=lambda plan: plan.peak)
    return best


def _worth(plan: Plan, limit: int) -> tuple[int, int]:
    """What is above a limit, over all that runs, and what is computed again: less is better."""
    return sum(max(0, live - limit) for live in plan.placement.live), plan.extra


def _at_the_peak(plan: Plan, limit: int) -> Iterator[Var]:
    """What is there where more is live than a limit, first what is most, by bytes and time."""
    placement, bytes_above = plan.placement, defaultdict[Var, int](int)
    high, least = [live > limit for live in placement.live], _SMALLEST * plan.peak
    for kernel in placement.order:
        (var, again), _ = kernel.buffer
        start, end, size = placement.lives.get(placement.first(kernel.buffer), (0, 0, 0))
        if not again and size >= least:
            bytes_above[var] += size * sum(high[start : end + 1])
    found = sorted(bytes_above, key=lambda var: -bytes_above[var])
    yield from (var for var in found if bytes_above[var])
