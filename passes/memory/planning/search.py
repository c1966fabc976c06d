"""Bettering plans by keeping and dropping single values, as long as that may be tried."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from relaxjax.ir.expr import Var

from .plan import Plan

# What a plan is worth: the less, the better.
Worth = Callable[[Plan], tuple[float, ...]]

# How many flops a byte above the budget weighs, against what they all are of the plan at first.
_WEIGHTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass
class Search:
    """Searches plans of a budget. `values` are those that may be kept or not."""

    values: Sequence[Var]
    plan_of: Callable[[frozenset[Var]], Plan]
    budget: int
    tries: int
    known: dict[frozenset[Var], Plan] = field(default_factory=dict)

    def best(self, first: Plan, others: Iterable[Plan]) -> Plan:
        """The best plan that is found from these, `first` being one that keeps much."""
        total = max(1, sum(step.flops for step in first.program.steps))
        area = max(1, self.area(first))
        found = list(others)
        for weight in _WEIGHTS:
            found.append(self.down(first, self.weighed(weight * total / area), False))
        found.sort(key=self.badness)
        return min((self.down(plan, self.badness, True) for plan in found), key=self.badness)

    def badness(self, plan: Plan) -> tuple[float, ...]:
        return max(0, plan.peak - self.budget), plan.extra, plan.peak

    def weighed(self, weight: float) -> Worth:
        """What is computed again, and what is too much, as one number."""
        return lambda plan: (plan.extra + weight * self.area(plan),)

    def area(self, plan: Plan) -> int:
        """By how much all that runs takes more than the budget, together."""
        return sum(max(0, live - self.budget) for live in plan.placement.live)

    def down(self, plan: Plan, worth: Worth, swaps: bool) -> Plan:
        """A plan that no change of one value makes better, nor an exchange of two with `swaps`."""
        while True:
            better = self.better(plan, self.toggled(plan), worth)
            if better is None and swaps:
                better = self.better(plan, self.swapped(plan), worth)
            if better is None:
                return plan
            plan = better

    def better(self, plan: Plan, changes: Iterator[frozenset[Var]], worth: Worth) -> Plan | None:
        """The best of the plans that some changes make, if it is better than before."""
        best = min(filter(None, map(self.tried, changes)), key=worth, default=plan)
        return best if worth(best) < worth(plan) else None

    def tried(self, kept: frozenset[Var]) -> Plan | None:
        if kept not in self.known:
            if self.tries <= 0:
                return None
            self.tries -= 1
            self.known[kept] = self.plan_of(kept)
        return self.known[kept]

    def toggled(self, plan: Plan) -> Iterator[frozenset[Var]]:
        for var in self.values:
            yield plan.kept ^ {var}

    def swapped(self, plan: Plan) -> Iterator[frozenset[Var]]:
        kept = [var for var in self.values if var in plan.kept]
        for one in self.values:
            if one not in plan.kept:
                for other in kept:
                    yield plan.kept ^ {one, other}
