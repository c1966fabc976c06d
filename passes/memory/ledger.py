"""What is kept from the forward part to the backward part, and why: a plan, told value by value."""

from dataclasses import dataclass
from functools import cached_property

from relaxjax.ir.expr import Var
from relaxjax.ir.span import Span

from .kernels import Buffer
from .plan import Plan
from .planning import Planner
from .program import Program
from .schedule import Value
from .step import Step

_CHEAPER = "cheaper to keep than to compute again"


@dataclass(frozen=True, slots=True)
class Entry:
    """A forward value that the backward part uses, directly or to compute others again."""

    name: str
    size: int
    span: Span | None
    flops: int  # what computing it again takes, if what it is computed from is there
    needed_by: tuple[str, ...]  # steps of the backward part, or what is computed again for them
    kept: bool
    reason: str
    is_choice: bool  # whether it might as well be computed again, and nobody asked


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
    def peak_at(self) -> str:
        """What is computed where the most bytes are live."""
        order = self.plan.placement.order
        return _named(order[self._peak_time].buffer) if order else "nothing"

    @property
    def at_peak(self) -> dict[str, int]:
        """What is live then, the largest first. A result lies in memory of the caller."""
        held = self.plan.placement.held(self._peak_time)
        sizes: dict[str, int] = {}
        for buffer, size in sorted(held.items(), key=lambda item: -item[1]):
            sizes[_named(buffer)] = sizes.get(_named(buffer), 0) + size
        return sizes

    @property
    def _peak_time(self) -> int:
        placement = self.plan.placement
        return placement.live.index(placement.peak) if placement.live else 0

    @property
    def extra_share(self) -> float:
        """What is computed again, as a share of the whole program's operations."""
        return self.plan.extra / max(self.planner.total, 1)

    def _entry(self, step: Step) -> Entry:
        var, kept = step.var, step.var in self.plan.kept
        readers = self.program.users.get(var, ())
        users = tuple(reader.var.name for reader in readers if reader.var in self._backward)
        users = users or tuple(self._users_of_copies.get((var, not kept), ()))
        reason = self._reason(step)
        choice = reason == _CHEAPER
        return Entry(var.name, step.size, step.span, step.flops, users, kept, reason, choice)

    @cached_property
    def _backward(self) -> frozenset[Var]:
        return frozenset(step.var for step in self.program.backward)

    @cached_property
    def _users_of_copies(self) -> dict[Value, list[str]]:
        """What is computed again from each value, and what of the copy of each."""
        found: dict[Value, list[str]] = {}
        for task in self.plan.tasks:
            for value in dict.fromkeys(task.inputs):
                if task.again or value[1]:
                    found.setdefault(value, []).append(task.step.var.name)
        return found

    def _reason(self, step: Step) -> str:
        planner = self.planner
        if step.var in self.plan.kept:
            if step.var in self.program.not_again:
                return "a decision, which might be another" if step.pure else "has effects"
            if step.var in planner.must_keep:
                return "as asked"
            return _CHEAPER
        sources = ", ".join(var.name for var in step.inputs) or "nothing"
        asked = " as asked" if step.var in planner.must_recompute else ""
        return f"computed again{asked}, from {sources}"


def _named(buffer: Buffer) -> str:
    """A value as a person reads it, one that is computed again as such."""
    (var, again), _ = buffer
    return f"{var.name} again" if again else var.name
