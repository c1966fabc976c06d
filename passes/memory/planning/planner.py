"""Choosing which forward values to keep for the backward part, and which to compute again."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, islice

from relaxjax.ir.expr import Var

from ..program.cuts import Boundaries, cheapest_cut
from ..program.program import Program
from ..program.step import Step, size_of
from .descent import lowered
from .ordering import PLACED_BY_DEFAULT, ordered
from .plan import Plan
from .search import Search
from .spare_room import fitting

POLICIES = ("none", "free", "balanced", "minimal")
# How many of the candidates for the smallest peak are held against what XLA says of them.
_TIGHTEST = 2
# How many plans are improved by keeping more, and how many values are then tried one by one.
_RELAXED = 2
_TRIED_SINGLY = 4
# By how much smaller a value is than what it sums up, or what a broadcast or dear one is a factor
# of, that is kept anyway. Other factors are not: in a transformer, XLA then writes out the maximum
# of a softmax as large as the scores, and keeps that.
_SMALLER = 64
# So many steps are few enough for a search of single values, which may try so many plans.
_SMALL = 64
_TRIES = 3000
# And so many are that many that fewer plans are tried.
_LARGE = 2000
# So many steps may be looked at where plans with one value less are tried, one plan after another.
_TRIES_OF_STEPS = 60_000
# After so many in turn that are no better, with as much kept as "balanced" asks for, plans of yet
# more segments are not either: they come to much the same.
_IN_VAIN = 2
# From so many kept values one is computed again at most, so that every third sum of a ResNet's
# blocks is kept. XLA writes out a chain again in each kernel that reads a part of it: the kernels
# of ResNet-50 that have to be compiled have 1.17 times as many operations with no limit.
_MOST_SOURCES = 3
# Up to so many shifts, a sum costs about as much to compute again as to read: those of a 3x3
# kernel, which XLA computes inside of what reads them.
_FEW_SHIFTS = 16
# At this share of the peak of keeping everything, other plans that keep all are not looked at.
_FAR_LESS = 1 / 2
# What lowers a peak to more than this share need not wait: a prediction errs by as much, and XLA
# may compute what waits in other kernels than without.
_BY_WAITING = 0.92
# A plan is followed whose predicted peak is at most this share of that of keeping everything: to
# save less is not worth the operations, and may be an error of the prediction.
WORTH = 0.85
# How much higher a peak may be if less is computed again for it. Each value that is computed again
# is operations in several kernels: XLA has to compile 582 kernels of ResNet-18 instead of 618.
_SPARE = 1.05
# How far above that a peak may seem to be, before a plan tells: less is computed again by then.
_HOPES = (1.15, 1.0, 1.15, 1.0)
# What "free" and "balanced" may compute a second time, as shares of the whole program.
FREE = 0.05
BALANCED = 0.125


class Planner:
    """Finds plans for one program. `must_keep` and `must_recompute` are what its user decided."""

    def __init__(
        self,
        program: Program,
        must_keep: frozenset[Var] = frozenset(),
        must_recompute: frozenset[Var] = frozenset(),
    ) -> None:
        self.program = program
        self.must_keep = must_keep | program.not_again | program.pinned
        self.must_recompute = must_recompute
        self._plans: dict[frozenset[Var], Plan] = {}
        self.total = sum(step.flops for step in program.steps)

    def by_policy(self, policy: str) -> Plan:
        """The plan of one of POLICIES, with a peak no higher than of one before, or of "light"."""
        plan = getattr(self, policy)
        assert isinstance(plan, Plan)
        return plan

    @cached_property
    def none(self) -> Plan:
        """Nothing is computed again but what the user asked for."""
        kept = frozenset(step.var for step in self.program.residuals)
        if self.must_recompute:
            kept = cheapest_cut(self.program, lambda step: step.var in self.must_recompute)
        return Plan(self.program, self._decided(kept))

    @cached_property
    def waiting(self) -> Plan:
        """As `none`, but what the backward part could compute early waits until it is needed."""
        return self.plan_of(self.none.kept)

    @cached_property
    def free(self) -> Plan:
        """What costs about as much as reading it is computed again."""
        return self._or_in_order(self._at_once, self.is_free)

    @cached_property
    def light(self) -> Plan:
        """What costs no more than reading it from a cache is computed again."""
        return self._or_in_order(self._cheapest(self.is_light), self.is_light)

    @cached_property
    def _at_once(self) -> Plan:
        """The plan of "free" in which nothing waits for a value of the peak."""
        return self._cheapest(self.is_free)

    def _cheapest(self, again: Callable[[Step], bool]) -> Plan:
        """The plan that keeps the least bytes, with a few operations `again`."""
        plan = self._cut(again)
        if plan.peak <= _FAR_LESS * self.none.peak:
            return plan
        return min(self.none, self.waiting, plan, key=lambda plan: plan.peak)

    def _cut(self, again: Callable[[Step], bool]) -> Plan:
        """The plan of the cheapest cut, with more kept where it would compute too much again."""
        kept = cheapest_cut(self.program, again)
        plan = self.plan_of(_with_short_chains(self.program, kept))
        most = int(self.total * FREE)
        return plan if plan.extra <= most else self._least_kept(plan, most, self.none.kept)

    def _or_in_order(self, plan: Plan, again: Callable[[Step], bool]) -> Plan:
        """A plan, or one with values that wait where that saves too little."""
        if plan.peak <= WORTH * self.none.peak:
            return plan
        return min(plan, in_order(self.none), in_order(self._cut(again)), key=_by_peak)

    @cached_property
    def minimal(self) -> Plan:
        """The smallest peak that is found of plans that leave no larger gaps between values."""
        most = min(self.none.size, self.balanced.size)
        return next((plan for plan in self.smallest if plan.size <= most), self.balanced)

    @cached_property
    def smallest(self) -> list[Plan]:
        """Plans of small peaks, the smallest first."""
        tightest = sorted(self.candidates, key=_by_peak)[:_TIGHTEST]
        plans = [self.balanced, *tightest, *self.ordered]
        return sorted(dict.fromkeys(plans), key=_by_peak)

    @cached_property
    def balanced(self) -> Plan:
        """The smallest peak for a small share of the program computed again."""
        most = int(self.total * BALANCED)
        within = [plan for plan in self.candidates if plan.extra <= most]
        best = min(within, key=_by_peak, default=self.none)
        wanted, in_vain = self.none.kept | self._at_once.kept, 0
        for plan in self.candidates:
            if plan.extra <= most or plan.peak >= best.peak:
                continue
            least = self._least_kept(plan, most, wanted)
            in_vain = 0 if least.peak < best.peak else in_vain + 1
            best = min(best, least, key=_by_peak)
            if in_vain == _IN_VAIN:
                break
        tries = _TRIES_OF_STEPS // max(1, len(self.program.steps))
        return lowered(best, self._without, lambda plan: plan.extra <= most, tries)

    def within(self, budget: int) -> Plan | None:
        """The plan that computes least again among those found whose peak is in the budget."""
        if self.none.peak <= budget:
            return self.none
        cheapest = self._cheapest_within(budget)
        if self._is_small:
            found = self._searched(budget, [*cheapest, self.minimal])
            return found if found.peak <= budget else None
        relaxed = [self._relaxed(plan, lambda p: p.peak <= budget) for plan in cheapest]
        return min((*cheapest, *relaxed), key=_by_extra, default=None)

    def _cheapest_within(self, budget: int) -> list[Plan]:
        """The plans that compute least again among those that keep a budget: all of a small one.

        Those that compute more again are not placed, which takes longer than to make them.
        """
        most = 1 if self.is_large else None if self._is_small else _RELAXED
        by_extra = sorted(self.candidates, key=lambda plan: plan.extra)
        cheapest = list(islice((plan for plan in by_extra if plan.peak <= budget), most))
        if all(plan.extra > FREE * self.total for plan in cheapest):
            is_kept = len(cheapest) > 0
            orders = self._first_ordered if is_kept and self.is_large else self.ordered
            cheapest += [plan for plan in orders if plan.peak <= budget]
        return sorted(cheapest, key=_by_extra)[:most]

    def with_spare_room(self, plan: Plan, most: int) -> Plan:
        """`plan` with more kept: what hardly raises its peak, and to no more than `most`."""
        most = min(most, int(plan.peak * _SPARE))
        tried = set[tuple[Plan, float]]()  # to make a plan with orders again takes long
        for hope in _HOPES:
            if (plan, hope) in tried:
                continue
            tried.add((plan, hope))
            more = self._keeping(plan, plan.kept | fitting(plan, int(most * hope)))
            if more.peak <= most:
                plan = more
        return plan

    @property
    def _is_small(self) -> bool:
        """Whether single values can be tried in turn, and pairs of them."""
        return len(self.program.steps) <= _SMALL

    @property
    def is_large(self) -> bool:
        """Whether it takes tenths of a second to look at a plan."""
        return len(self.program.steps) > _LARGE

    def _searched(self, budget: int, starts: Sequence[Plan]) -> Plan:
        decided = self.must_keep | self.must_recompute
        values = [step.var for step in self.program.forward if step.var not in decided]
        return Search(values, self.plan_of, budget, _TRIES).best(self.none, starts)

    @cached_property
    def candidates(self) -> list[Plan]:
        """Plans from keeping much to keeping little: what is free, then ever longer segments."""
        found = {plan.kept: plan for plan in (self.waiting, self._at_once)}
        for kept in self._segmented():
            plan = self.plan_of(kept)
            found.setdefault(plan.kept, plan)
        return [self.none, *found.values()]

    @cached_property
    def ordered(self) -> list[Plan]:
        """Plans that compute nothing again, little, and much, with values that wait for others."""
        little = {self.waiting, self._at_once}
        much = dict.fromkeys([self.balanced, min(self.candidates, key=_by_peak)])
        return self._first_ordered + [ordered(plan) for plan in much if plan not in little]

    @cached_property
    def _first_ordered(self) -> list[Plan]:
        """The first of them, which compute nothing again, or little."""
        return [ordered(plan) for plan in dict.fromkeys((self.waiting, self._at_once))]

    def _least_kept(self, plan: Plan, most_extra: int, wanted: frozenset[Var]) -> Plan:
        """`plan` with the least more of `wanted` kept with which it computes no more again."""
        worth, start = self._worth_keeping(plan, wanted), plan.kept
        least, most = 0, len(worth)
        while least < most:
            count = (least + most) // 2
            more = self.plan_of(start | {step.var for step in worth[:count]})
            least, most = (least, count) if more.extra <= most_extra else (count + 1, most)
        return self.plan_of(start | {step.var for step in worth[:least]})

    def _worth_keeping(self, plan: Plan, wanted: frozenset[Var]) -> list[Step]:
        """What `plan` does not keep, that which saves most flops a byte first."""
        steps = [self.program.step_of[var] for var in wanted - plan.kept - self.must_recompute]
        order = {step.var: index for index, step in enumerate(self.program.forward)}
        return sorted(steps, key=lambda s: (-s.flops / max(s.size, 1), -order[s.var]))

    def plan_of(self, kept: frozenset[Var]) -> Plan:
        """The plan that keeps these values, but for what the user decided."""
        kept = self._decided(kept)
        if kept not in self._plans:
            self._plans[kept] = Plan(self.program, kept, late=True)
        return self._plans[kept]

    def _without(self, plan: Plan, var: Var) -> Plan | None:
        """A plan that computes one value more again, None where that is not to be."""
        if var not in plan.kept or var in self._decided(frozenset()):
            return None
        return self.plan_of(plan.kept - {var})

    def _keeping(self, plan: Plan, kept: frozenset[Var]) -> Plan:
        """The plan with the same orders that keeps these values."""
        if not plan.orders:
            return self.plan_of(kept)
        decided = self._decided(kept)
        return plan if decided == plan.kept else replace(plan, kept=decided)

    def _decided(self, kept: frozenset[Var]) -> frozenset[Var]:
        return (kept | self.must_keep | self._slight) - self.must_recompute

    @cached_property
    def _slight(self) -> frozenset[Var]:
        """What is so small that to keep it costs nothing beside what it is a part of computing.

        To sum it up again would read too much, and what is dear takes a kernel of its own. And each
        value that is computed again of kept ones alone has to wait for a moment, which is more
        operations in a kernel: where parameters are at hand in the shape in which they are factors,
        the data does alone.
        """
        if self._is_small:
            return frozenset()
        return frozenset(step.var for step in self.program.forward if self._is_slight(step))

    def _is_slight(self, step: Step) -> bool:
        is_factor = step.is_broadcast or (step.pointwise and step.expensive)
        users = self.program.users.get(step.var, ()) if is_factor else ()
        read = map(size_of, step.inputs) if step.is_reduction else ()
        made = (user.size for user in users)
        return max((*read, *made), default=0) >= _SMALLER * step.size

    def is_free(self, step: Step) -> bool:
        """Whether to compute a value again costs about as much as to read it."""
        if step.var in self.must_keep or step.var in self.must_recompute:
            return step.var not in self.must_keep
        return (step.fusible or step.is_view) and step.var not in self._dear

    def is_light(self, step: Step) -> bool:
        """Whether it is a few operations on numbers that are read one by one: no function, no sum.

        A program whose values lie in a processor's caches reads a value sooner than it computes it.
        """
        is_dear = step.is_reduction or (step.expensive and not step.is_view)
        return self.is_free(step) and (not is_dear or step.var in self.must_recompute)

    @cached_property
    def _dear(self) -> frozenset[Var]:
        return _dear_sums(self.program.forward)

    def _segmented(self) -> Iterator[frozenset[Var]]:
        """What lies between segments of about equal bytes, cut where the fewest bytes cross."""
        boundaries = Boundaries(self.program)
        kept_bytes = (
            step.size if step.var in self._at_once.kept else 0 for step in self.program.forward
        )
        done = list(accumulate(kept_bytes))
        total = done[-1] if done else 0
        count = 2
        while count <= len(done) and count <= 64:
            kept: set[Var] = set()
            for part in range(1, count):
                low, high = total * (part - 0.5) / count, total * (part + 0.5) / count
                inside = range(bisect_left(done, low), bisect_left(done, high))
                if inside:
                    kept |= boundaries.crossing(min(inside, key=boundaries.widths.__getitem__))
            yield frozenset(kept)
            count += max(1, count // (2 if self.is_large else 4))

    def _relaxed(self, plan: Plan, fits: Callable[[Plan], bool]) -> Plan:
        """`plan` with more kept, what saves most flops a byte first, as long as it fits.

        How many can be kept is found by halving; after them, a few more are tried one by one. In a
        large program, a few more or less do not matter.
        """
        worth, start = self._worth_keeping(plan, self.none.kept | self._at_once.kept), plan.kept
        least, most = 0, len(worth)
        apart, singly = (most // 64, 0) if self.is_large else (0, _TRIED_SINGLY)
        while most - least > apart:
            count = (least + most + 1) // 2
            more = self._keeping(plan, start | {step.var for step in worth[:count]})
            if fits(more):
                plan, least = more, count
            else:
                most = count - 1
        for step in worth[least + 1 : least + 1 + singly]:
            more = self._keeping(plan, plan.kept | {step.var})
            if more.extra < plan.extra and fits(more):
                plan = more
        return plan


def in_order(plan: Plan) -> Plan:
    """The plan with values that wait for others, where that makes it much smaller."""
    other = ordered(plan, PLACED_BY_DEFAULT, again=False)
    return other if other.peak <= _BY_WAITING * plan.peak else plan


def _by_peak(plan: Plan) -> tuple[int, int]:
    return plan.peak, plan.extra


def _by_extra(plan: Plan) -> tuple[int, int]:
    return plan.extra, plan.peak


def _dear_sums(steps: Iterable[Step]) -> frozenset[Var]:
    """The values that add up many slices of a tensor, each times something.

    A convolution by a kernel for each channel is such a sum, written out: products, their sum, and
    the quotient by which it is stored.
    """
    found: dict[Var, tuple[Var, int]] = {}
    for step in steps:
        name = "" if step.op is None else step.op.name
        known = [found[var] for var in step.inputs if var in found]
        match name, known:
            case "lax.slice", _ if step.inputs:  # a constant has none
                found[step.var] = step.inputs[0], 1
            case "lax.mul", [(shifted, 1)]:
                found[step.var] = shifted, 1
            case "lax.add", [(left, before), (right, more)] if left is right:
                found[step.var] = left, before + more
            case "lax.div", [(shifted, count)]:
                found[step.var] = shifted, count
    return frozenset(var for var, (_, count) in found.items() if count > _FEW_SHIFTS)


def _with_short_chains(program: Program, kept: frozenset[Var]) -> frozenset[Var]:
    """`kept`, and what else must be so that few values suffice to compute any other again."""
    # The largest that a value is computed from again: no more of them decide whether it is kept.
    sources: dict[Var, tuple[Var, ...]] = {}
    more = set(kept)
    for step in program.forward:
        found = dict.fromkeys(var for read in step.inputs for var in sources.get(read, ()))
        largest = sorted(found, key=lambda var: -program.step_of[var].size)[: _MOST_SOURCES + 1]
        large = [var for var in largest if 2 * program.step_of[var].size >= step.size]
        if step.size and not step.is_view and len(large) > _MOST_SOURCES:
            more.add(step.var)
        sources[step.var] = (step.var,) if step.var in more else tuple(largest)
    return frozenset(more)
