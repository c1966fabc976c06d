"""The rows of a report of memory: what of the forward part is kept, where, or computed again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from relaxjax.ir.expr import TupleGetItem, Var
from relaxjax.ir.span import Span, short_place
from relaxjax.ir.tables import shown_bytes, shown_flops

from ..loops.host_stacks import bytes_on_host
from ..planning.plan import Plan
from ..planning.planner import Planner
from ..program.caller import Place
from ..program.schedule import Value
from ..program.step import Step

_CHEAPER = "cheaper to keep than to compute again"
_ON_HOST = "in the memory of the host"


@dataclass(frozen=True, slots=True)
class Row:
    """A forward value that the backward part uses, directly or to compute others again."""

    name: str
    bytes: int
    span: Span | None
    flops: int  # what computing it again takes, if what it is computed from is there
    needed_by: tuple[str, ...]  # steps of the backward part, or what is computed again for them
    kept: bool
    reason: str
    is_choice: bool  # whether it might as well be computed again, and nobody asked
    on_host: bool = False  # whether it is kept there, and takes none of the device's bytes


def rows_of(planner: Planner, plan: Plan) -> tuple[Row, ...]:
    """What a plan does with what the backward part uses, in the order of the program."""
    return _Rows(planner, plan).all


class _Rows:
    """The rows of a plan, `planner` being the one that knows what was asked for."""

    def __init__(self, planner: Planner, plan: Plan) -> None:
        self.planner, self.plan = planner, plan
        self.program = plan.program

    @property
    def all(self) -> tuple[Row, ...]:
        read = {var for task in self.plan.tasks if task.again for var, _ in task.inputs}
        wanted = (self.plan.kept & read) | {step.var for step in self.program.residuals}
        steps = [step for step in self.program.forward if step.var in wanted and step.size]
        return tuple(row for step in steps for row in self._rows_of(step))

    def _rows_of(self, step: Step) -> Iterator[Row]:
        """A value that is on the host goes by the name of what was sent."""
        row = self._row(step)
        if step.is_sent:
            back = {reader.var for reader in self.program.users[step.var] if reader.is_fetched}
            users = [user.var.name for var in back for user in self.program.users.get(var, ())]
            needed = tuple(dict.fromkeys(users))
            yield replace(_on_host(row), name=step.inputs[0].name, needed_by=needed)
            return
        sent = self._stacked_on_host(step)
        if sent:
            yield replace(_on_host(row), bytes=sent)
        if sent < row.bytes:
            yield replace(row, bytes=row.bytes - sent)

    def _stacked_on_host(self, step: Step) -> int:
        """The bytes on the host of a part of what a loop gives."""
        way: Place = ()
        while step.var not in self.program.loops:
            get = step.binding.value
            if not (isinstance(get, TupleGetItem) and step.inputs):
                return 0
            way = (get.index, *way)
            before = self.program.step_of.get(step.inputs[0])
            if before is None:
                return 0
            step = before
        return bytes_on_host(self.program.loops[step.var].function, step.var, way)

    def _row(self, step: Step) -> Row:
        var, kept = step.var, step.var in self.plan.kept
        readers = self.program.users.get(var, ())
        users = tuple(reader.var.name for reader in readers if reader.var in self._backward)
        users = users or tuple(self._users_of_copies.get((var, not kept), ()))
        reason = self._reason(step)
        choice = reason == _CHEAPER
        return Row(var.name, step.size, step.span, step.flops, users, kept, reason, choice)

    @cached_property
    def _backward(self) -> frozenset[Var]:
        return frozenset(step.var for step in self.program.backward)

    @cached_property
    def _users_of_copies(self) -> Mapping[Value, Sequence[str]]:
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


def _on_host(row: Row) -> Row:
    return replace(row, flops=0, kept=True, reason=_ON_HOST, is_choice=False, on_host=True)


def cells(row: Row) -> tuple[str, ...]:
    """A row as a table shows it."""
    first, *others = row.needed_by or ("-",)
    needed = f"{first} and {len(others)} more" if others else first
    return row.name, shown_bytes(row.bytes), short_place(row.span), needed, _decision(row)


def _decision(row: Row) -> str:
    if not row.kept:
        return f"{row.reason}, for {shown_flops(row.flops)}"
    if row.on_host:
        return f"kept {row.reason}"
    if row.is_choice:
        return f"kept: computing it again takes {shown_flops(row.flops)}"
    return f"kept: {row.reason}"
