"""Choosing which forward values to keep for the backward part, and which to compute again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from relaxjax.ir.expr import Var

from .cuts import boundaries, cheapest_cut
from .kernels import kernels
from .placement import Placement, placed
from .program import Program, Step
from .schedule import Task, extra_flops, schedule

# How many plans are improved by keeping more, and how many values are then tried one by one.
_RELAXED = 4
_TRIED_SINGLY = 8
# What "free" and "balanced" may compute a second time, as shares of the whole program.
_FREE = 0.05
_BALANCED = 0.12


@dataclass(frozen=True)
class Plan:
    """The forward values that are kept, and what follows from that."""

    program: Program
    kept: frozenset[Var]
    late: bool = False  # whether what can wait for the backward part does

    @property
    def peak(self) -> int:
        """The most temporary bytes that are live at once."""
        return self.placement.peak

    @cached_property
    def placement(self) -> Placement:
        """Where its values are stored."""
        found = kernels(self.program, self.tasks)
        return placed(found.all, found.results)

    @cached_property
    def extra(self) -> int:
        """The flops of what is computed again."""
        return extra_flops(self.tasks)

    @property
    def changes(self) -> bool:
        """Whether anything is computed a second time, or waits."""
        return self.late or any(task.again for task in self.tasks)

    @cached_property
    def tasks(self) -> list[Task]:
        """The steps in their order, those among them that are made again too."""
        return schedule(self.program, self.kept, self.late)


class Planner:
    """Finds plans for one program. `must_keep` and `must_recompute` are what its user decided."""

    def __init__(
        self,
        program: Program,
        must_keep: frozenset[Var] = frozenset(),
        must_recompute: frozenset[Var] = frozenset(),
    ) -> None:
        self.program = program
        self.must_keep = must_keep | {s.var for s in program.forward if not s.pure}
        self.must_recompute = must_recompute
        self.total = sum(step.flops for step in program.steps)

    @cached_property
    def none(self) -> Plan:
        """Nothing is computed again but what the user asked for."""
        if not self.must_recompute:
            return self._plan(frozenset(step.var for step in self.program.residuals))
        return self._plan(cheapest_cut(self.program, lambda s: s.var in self.must_recompute))

    @cached_property
    def free(self) -> Plan:
        """What costs about as much as reading it is computed again."""
        plan = self._plan(cheapest_cut(self.program, self._is_free))
        most = int(self.total * _FREE)
        if plan.extra > most:
            plan = self._least_kept(plan, most, self.none.kept)
        return min(self.none, plan, key=lambda plan: plan.peak)

    @cached_property
    def minimal(self) -> Plan:
        """The smallest peak that is found."""
        return min(self.candidates, key=lambda plan: (plan.peak, plan.extra))

    @cached_property
    def balanced(self) -> Plan:
        """The smallest peak for a small share of the program computed again."""
        most = int(self.total * _BALANCED)
        within = [plan for plan in self.candidates if plan.extra <= most]
        best = min(within, key=lambda plan: (plan.peak, plan.extra))
        dearer = [plan for plan in self.candidates if plan.extra > most and plan.peak < best.peak]
        for plan in dearer:
            least = self._least_kept(plan, most, self.none.kept | self.free.kept)
            best = min(best, least, key=lambda plan: (plan.peak, plan.extra))
        return best

    def within(self, budget: int) -> Plan | None:
        """The plan that computes least again among those found whose peak is in the budget."""
        if self.none.peak <= budget:
            return self.none
        fitting = [plan for plan in self.candidates if plan.peak <= budget]
        if not fitting:
            return None
        cheapest = sorted(fitting, key=lambda plan: (plan.extra, plan.peak))[:_RELAXED]
        relaxed = [self._relaxed(plan, lambda p: p.peak <= budget) for plan in cheapest]
        return min((*cheapest, *relaxed), key=lambda plan: (plan.extra, plan.peak))

    @cached_property
    def candidates(self) -> list[Plan]:
        """Plans from keeping much to keeping little: what is free, then ever longer segments."""
        found = {self.none.kept: self.none, self.free.kept: self.free}
        for kept in self._segmented():
            plan = self._plan(kept)
            found.setdefault(plan.kept, plan)
        return list(found.values())

    def _least_kept(self, plan: Plan, most_extra: int, wanted: frozenset[Var]) -> Plan:
        """`plan` with the least more of `wanted` kept with which it computes no more again."""
        worth, start = self._worth_keeping(plan, wanted), plan.kept
        least, most = 0, len(worth)
        while least < most:
            count = (least + most) // 2
            more = self._plan(start | {step.var for step in worth[:count]})
            least, most = (least, count) if more.extra <= most_extra else (count + 1, most)
        return self._plan(start | {step.var for step in worth[:least]})

    def _worth_keeping(self, plan: Plan, wanted: frozenset[Var]) -> list[Step]:
        """What `plan` does not keep, that which saves most flops a byte first."""
        steps = [self.program.step_of[var] for var in wanted - plan.kept - self.must_recompute]
        order = {step.var: index for index, step in enumerate(self.program.forward)}
        return sorted(steps, key=lambda s: (-s.flops / max(s.size, 1), -order[s.var]))

    def _plan(self, kept: frozenset[Var]) -> Plan:
        return Plan(self.program, (kept | self.must_keep) - self.must_recompute)

    def _is_free(self, step: Step) -> bool:
        return step.var not in self.must_keep and (
            step.fusible or step.is_view or step.var in self.must_recompute
        )

    def _segmented(self) -> Iterator[frozenset[Var]]:
        """What lies between segments of about equal bytes, cut where the fewest bytes cross."""
        size = {step.var: step.size for step in self.program.forward}
        crossing = boundaries(self.program)
        widths = [sum(size[var] for var in cut) for cut in crossing]
        total, done = 0, []
        for step in self.program.forward:
            total += step.size if step.var in self.free.kept else 0
            done.append(total)
        count = 2
        while count <= len(crossing) and count <= 64:
            kept: set[Var] = set()
            for part in range(1, count):
                low, high = total * (part - 0.5) / count, total * (part + 0.5) / count
                inside = [i for i, bytes_done in enumerate(done) if low <= bytes_done < high]
                if inside:
                    kept |= crossing[min(inside, key=widths.__getitem__)]
            yield frozenset(kept)
            count += max(1, count // 4)

    def _relaxed(self, plan: Plan, fits: Callable[[Plan], bool]) -> Plan:
        """`plan` with more kept, what saves most flops a byte first, as long as it fits.

        How many can be kept is found by halving; after them, a few more are tried one by one.
        """
        worth, start = self._worth_keeping(plan, self.none.kept | self.free.kept), plan.kept
        least, most = 0, len(worth)
        while least < most:
            count = (least + most + 1) // 2
            more = self._plan(start | {step.var for step in worth[:count]})
            if fits(more):
                plan, least = more, count
            else:
                most = count - 1
        for step in worth[least + 1 : least + 1 + _TRIED_SINGLY]:
            more = self._plan(plan.kept | {step.var})
            if more.extra < plan.extra and fits(more):
                plan = more
        return plan
