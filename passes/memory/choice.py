"""Choosing among plans by what XLA says of the programs that they make."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .plan import Plan
from .planning import Planner

# The plans that budgets are met by lie so many steps apart, from everything kept to the least.
_RUNGS = 16
# A plan is not tried for a budget that its predicted peak exceeds by this factor.
_FAR_BEYOND = 1.25

# The temporary bytes of a program that follows a plan, by XLA's own count.
Figure = Callable[[Plan], int]


@dataclass
class Chooser:
    """Chooses among a planner's plans. Each is compiled at most once."""

    planner: Planner
    figure: Figure
    known: dict[Plan, int] = field(default_factory=dict)

    def within(self, limit: int) -> Plan | None:
        """The first plan on the way from keeping everything to keeping little that fits.

        The way is the same for all limits, so a smaller one never takes more memory.
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
        none, least = planner.none.peak, planner.smallest[0].peak
        yield planner.none
        yield planner.waiting
        yield planner.free
        scale = self.bytes_of(planner.none) / max(none, 1)
        for rung in range(1, _RUNGS):
            target = int(none * (least / max(none, 1)) ** (rung / _RUNGS))
            if target * scale <= limit * _FAR_BEYOND:
                plan = planner.within(target)
                if plan is not None:
                    yield plan
        yield from planner.smallest
