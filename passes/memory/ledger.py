"""What is kept from the forward part to the backward part, and why: a plan, told value by value."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from relaxjax.ir.expr import Var
from relaxjax.ir.span import Span

from .plan import Plan
from .planning import Planner
from .program import Program
from .step import Step


@dataclass(frozen=True, slots=True)
class Entry:
    """A forward value that the backward part uses, directly or to compute others again."""

    name: str
    size: int
    span: Span | None
    needed_by: tuple[str, ...]  # steps of the backward part
    kept: bool
    reason: str


@dataclass(frozen=True)
class Ledger:
    """All such values of a program under a plan, beside a plan that keeps everything."""

    planner: Planner
    plan: Plan

    @property
    def program(self) -> Program:
        return self.plan.program

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """In the order in which they are computed."""
        read = {var for task in self.plan.tasks if task.again for var, _ in task.inputs}
        wanted = (self.plan.kept & read) | {step.var for step in self.program.residuals}
        steps = [step for step in self.program.forward if step.var in wanted and step.size]
        return tuple(map(self._entry, steps))

    @property
    def kept_bytes(self) -> int:
        return sum(entry.size for entry in self.entries if entry.kept)

    @property
    def extra_share(self) -> float:
        """What is computed again, as a share of the whole program's operations."""
        return self.plan.extra / max(self.planner.total, 1)

    def _entry(self, step: Step) -> Entry:
        users = tuple(s.var.name for s in self.program.backward if step.var in s.inputs)
        if step.var not in self.plan.kept:
            users = users or tuple(self._users_of_copy(step.var))
        reason = self._reason(step)
        return Entry(step.var.name, step.size, step.span, users, step.var in self.plan.kept, reason)

    def _users_of_copy(self, var: Var) -> Iterator[str]:
        for task in self.plan.tasks:
            if (var, True) in task.inputs:
                yield task.step.var.name

    def _reason(self, step: Step) -> str:
        planner = self.planner
        if step.var in self.plan.kept:
            if step.var in self.program.not_again:
                return "a decision, which might be another" if step.pure else "has effects"
            if step.var in planner.must_keep:
                return "as asked"
            return "cheaper to keep than to compute again"
        sources = ", ".join(var.name for var in step.inputs) or "nothing"
        asked = " as asked" if step.var in planner.must_recompute else ""
        return f"computed again{asked}, from {sources}"
