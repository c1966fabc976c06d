"""Choosing among plans by what XLA says of the programs that they make."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from .plan import Plan
from .planner import Planner

# The plans that budgets are met by lie so many steps apart, from everything kept to the least.
_RUNGS = 16
# And so much less is each peak of a large program, whose least it takes seconds to find.
_LESS = 0.88
# So many of the smallest plans are tried for a limit that none is expected to keep.
_SMALLEST = 2

# The temporary bytes of a program that follows a plan, by XLA's own count.
Figure = Callable[[Plan], int]


@dataclass
class Chooser:
    """Chooses among a planner's plans. Each is compiled at most once.

    Choosers for the same program with other loops share what is `known`.
    """

    planner: Planner
    figure: Figure
    known: dict[Plan, int] = field(default_factory=dict)

    def within(self, limit: int) -> Plan | None:
        """The first plan on the way from keeping everything to keeping little that fits.

        Those that are expected to be beyond the limit are not tried: each takes as long as a step
        takes to compile.
        """
        return next((plan for plan in self._way(limit) if self.bytes_of(plan) <= limit), None)

    @property
    def least(self) -> int:
        """The fewest bytes of all the plans that were tried."""
        return min(self.known.values())

    def bytes_of(self, plan: Plan) -> int:
        """What a plan takes by XLA's count."""
        if plan not in self.known:
            self.known[plan] = self.figure(plan)
        return self.known[plan]

    def _way(self, limit: int) -> Iterator[Plan]:
        """Plans for ever lower peaks, but for those that are far from the limit."""
        planner = self.planner
        for first in (planner.none, planner.waiting, planner.free):
            if self._may_fit(first.peak, limit):
                yield first
        none, less = planner.none.peak, _LESS
        if not planner.is_large:
            less = (planner.smallest[0].peak / max(none, 1)) ** (1 / _RUNGS)
        for rung in range(1, _RUNGS):
            target = int(none * less**rung)
            plan = planner.within(target) if self._may_fit(target, limit) else None
            if plan is not None:
                yield plan
        yield from (plan for plan in planner.smallest if self._may_fit(plan.peak, limit))

    def _may_fit(self, peak: int, limit: int) -> bool:
        """Whether XLA's count may be within a limit, by that of the last plan that was tried.

        What is not predicted of one plan, such as a copy of a parameter, is not predicted of the
        next one either: as many bytes are expected beyond the peak.
        """
        if not self.known:
            return True
        plan, taken = list(self.known.items())[-1]
        return peak + taken - plan.peak <= limit


def try_smallest(choosers: Sequence[Chooser], limit: int) -> None:
    """Try a few of the smallest plans, which tell the least, and may keep the limit after all.

    As few bytes are expected beyond a peak as of any plan that was tried. Of plans that are
    predicted alike, such as those of forms that differ in nothing that is live then, one tells all.
    """
    known, bytes_of = choosers[0].known, choosers[0].bytes_of
    alike = {_figures(plan) for plan in known}
    plans = []
    for plan in chain.from_iterable(one.planner.smallest for one in choosers):
        if _figures(plan) not in alike:
            alike.add(_figures(plan))
            plans.append(plan)
    for plan in sorted(plans, key=lambda plan: plan.peak)[:_SMALLEST]:
        beyond = min(taken - tried.peak for tried, taken in known.items())
        if plan.peak + beyond < choosers[0].least and bytes_of(plan) <= limit:
            return


def _figures(plan: Plan) -> tuple[int, ...]:
    return plan.peak, plan.size, plan.extra
