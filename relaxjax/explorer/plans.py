"""The memory of an adjoint, by the plan that is followed and by others, to be compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from relaxjax.ir.expr import Var
from relaxjax.ir.printer import variable_names
from relaxjax.passes.memory.planning.plan import Plan as FoundPlan
from relaxjax.passes.memory.planning.planner import POLICIES, Planner
from relaxjax.passes.memory.report.memory_report import MemoryReport
from relaxjax.passes.memory.storage.memory_model import Buffer, Placement

from .document import Choice, Life, Memory, Plan, Value
from .printed import Places

# Shares of what keeping everything takes, for which there are plans beside those of the policies.
SHARES = (0.75, 0.5, 0.35, 0.25)


def memory_of(report: MemoryReport, places: Places) -> Memory:
    """What a report says, by several plans: the one that keeps everything first."""
    planner = report.planner
    found: dict[frozenset[Var], tuple[str, FoundPlan]] = {}
    for name, plan in _named(planner, report.plan):
        found.setdefault(plan.kept, (name, plan))
    values = _Values(report, places)
    written = [_written(replace(report, plan=plan), name, values) for name, plan in found.values()]
    chosen = list(found).index(report.plan.kept)
    return Memory(
        report.name, report.budget, tuple(values.found), tuple(written), chosen, planner.total
    )


def _named(planner: Planner, followed: FoundPlan) -> Iterator[tuple[str, FoundPlan]]:
    """Plans from much memory to little, each with the policy or the budget that it is for."""
    yield "everything kept", planner.none
    plans = [(policy, planner.by_policy(policy)) for policy in POLICIES[1:]]
    for share in SHARES:
        plan = planner.within(int(planner.none.peak * share))
        if plan is not None:
            plans.append((f"{share:.0%} of everything", plan))
    plans.append(("as compiled", followed))
    yield from sorted(plans, key=lambda item: -item[1].peak)


@dataclass(slots=True)
class _Values:
    """The values that plans name, each once."""

    report: MemoryReport
    places: Places
    found: dict[Value, int] = field(default_factory=dict)
    known: dict[tuple[Var, bool], int] = field(default_factory=dict)
    names: Mapping[Var, str] = field(init=False)
    backward: frozenset[Var] = field(init=False)

    def __post_init__(self) -> None:
        program = self.report.plan.program
        self.names = variable_names(program.function)
        self.backward = frozenset(step.var for step in program.backward)

    def number(self, var: Var, again: bool = False) -> int:
        if (var, again) not in self.known:
            step = self.report.plan.program.step_of.get(var)
            place = self.places.number(None if step is None else step.binding.span)
            name = self.names.get(var, var.name)
            value = Value(name, again, place, again or var in self.backward)
            self.known[var, again] = self.found.setdefault(value, len(self.found))
        return self.known[var, again]

    def of(self, buffer: Buffer) -> int:
        return self.number(*buffer[0])


def _written(report: MemoryReport, name: str, values: _Values) -> Plan:
    placement = report.plan.placement
    steps = [*report.plan.program.forward]
    by_name = {step.var.name: step.var for step in steps}
    return Plan(
        name,
        placement.peak,
        report.plan.extra,
        tuple(values.of(kernel.buffer) for kernel in placement.order),
        tuple(_lives(placement, values)),
        tuple(
            Choice(
                values.number(by_name[row.name]),
                row.bytes,
                row.flops,
                row.kept,
                row.reason,
                row.needed_by,
            )
            for row in report.rows
        ),
    )


def _lives(placement: Placement, values: _Values) -> Iterator[Life]:
    """What takes bytes, and when. Memory that is taken over by other values goes by their names."""
    begins: dict[Buffer, list[tuple[int, Buffer]]] = {}
    for time, kernel in enumerate(placement.order):
        first = placement.takers.get(kernel.buffer, kernel.buffer)
        begins.setdefault(first, []).append((time, kernel.buffer))
    for first, (start, end, size) in placement.lives.items():
        holders = begins.get(first) or [(start, first)]
        ends = [time - 1 for time, _ in holders[1:]] + [end]
        for (begin, buffer), last in zip(holders, ends, strict=True):
            yield Life(values.of(buffer), begin, last, size)
