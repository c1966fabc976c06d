"""Where the bytes of a backward program go: what is kept, what is computed again, and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from relaxjax.ir.highlight import Style, painted
from relaxjax.ir.module import IRModule
from relaxjax.ir.tables import shown_bytes
from relaxjax.ir.wording import counted
from relaxjax.lowering.interpreter import NoCompilerError
from relaxjax.ops.platform import PLATFORM, lowering_for

from ..planning.budget import Budget
from ..planning.decisions import Decided
from ..planning.plan import Plan
from ..planning.planner import Planner
from ..program.caller import Caller
from ..program.program import Program
from ..rematerialize import OFFLOAD, bytes_by_xla, decided, temporary_bytes_of, with_plan
from ..storage.memory_model import Buffer
from .rows import Row as Row
from .rows import cells, rows_of
from .tables import as_html, as_text
from .written_plan import read_plan

ORDERS = ("bytes", "program")
_NAMED = 5  # of the values at the peak


@dataclass(frozen=True)
class ComparedWithJax:
    """The temporary bytes of a program as planned, and of JAX's own, by XLA's count."""

    bytes: int
    bytes_of_jax: int

    @property
    def share(self) -> float:
        return self.bytes / max(self.bytes_of_jax, 1)

    def __str__(self) -> str:
        return (
            f"{shown_bytes(self.bytes)} as planned, {shown_bytes(self.bytes_of_jax)} by "
            f"jax.value_and_grad: {self.share:.2f} of it, by XLA's count"
        )


@dataclass(frozen=True, eq=False)
class MemoryReport:
    """What a backward program keeps of its forward part and computes again, value by value.

    `print(report)` shows the largest values first; a notebook shows it as a table. Peaks are as
    planned; what XLA says is asked of it where it is wanted, which compiles the program.
    """

    mod: IRModule
    name: str
    planner: Planner
    plan: Plan
    budget: int | None = None  # in bytes
    caller: Caller | None = None  # whose memory counts, such as that of a whole step
    jax_bytes: Callable[[], int] | None = None  # what XLA says of the loss as JAX differentiates it

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """In the order in which the values are computed."""
        return rows_of(self.planner, self.plan)

    @property
    def kept(self) -> tuple[Row, ...]:
        """What is kept on the device."""
        return tuple(row for row in self.rows if row.kept and not row.on_host)

    @property
    def on_host(self) -> tuple[Row, ...]:
        """What waits in the memory of the host."""
        return tuple(row for row in self.rows if row.on_host)

    @property
    def recomputed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.kept)

    @property
    def peak(self) -> int:
        """The most bytes that are live at once beside arguments and results."""
        return self.plan.peak

    @property
    def peak_of_all_kept(self) -> int:
        return self.planner.none.peak

    @property
    def live(self) -> Sequence[int]:
        """The bytes that are live at each step of the program as planned."""
        return self.plan.placement.live

    @property
    def live_of_all_kept(self) -> Sequence[int]:
        return self.planner.none.placement.live

    @property
    def peak_at(self) -> str:
        """The value that is computed where the most bytes are live."""
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
    def extra_flops(self) -> int:
        """What is computed again."""
        return self.plan.extra

    @property
    def extra_share(self) -> float:
        """The same as a share of the whole program's operations."""
        return self.plan.extra / max(self.planner.total, 1)

    @cached_property
    def bytes_by_xla(self) -> int:
        """What XLA counts of the program as planned, beside arguments and results."""
        with lowering_for(self._program.platform):
            return bytes_by_xla(self.mod, self.name, self.plan, self.caller)

    @cached_property
    def bytes_by_xla_of_all_kept(self) -> int:
        with lowering_for(self._program.platform):
            return temporary_bytes_of(self.mod, self.name, self.caller)

    @property
    def is_estimated(self) -> bool:
        """Whether the compiler that would count is not here, as without a GPU for programs on it.

        Then `bytes_by_xla` is an error, and all bytes are predicted from those that are live.
        """
        try:
            _ = self.bytes_by_xla_of_all_kept
        except NoCompilerError:
            return True
        return False

    def compared_with_jax(self) -> ComparedWithJax:
        """Beside what JAX's own derivative of the same loss takes, which is compiled for it."""
        if self.jax_bytes is None:
            raise ValueError(
                f"`{self.name}` is a function in Relax, which JAX's derivative is not known of: "
                "ask `relaxjax.value_and_grad(loss).memory(...)` of a loss written in JAX"
            )
        return ComparedWithJax(self.bytes_by_xla, self.jax_bytes())

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "function": self.name,
            "budget": self.budget,
            "values": [
                {
                    "name": row.name,
                    "bytes": row.bytes,
                    "file": None if row.span is None else row.span.file,
                    "line": None if row.span is None else row.span.line,
                    "needed_by": list(row.needed_by),
                    "flops": row.flops,
                    "kept": row.kept,
                    "on_host": row.on_host,
                    "reason": row.reason,
                }
                for row in self.rows
            ],
            "computed_again": self.extra_share,
            "extra_flops": self.extra_flops,
            "at_peak": {"computed": self.peak_at, "bytes": self.at_peak},
            "peaks": {
                "everything kept": self._peak(self.planner.none),
                "planned": self._peak(self.plan),
            },
        }

    def text(self, sort: str = "bytes") -> str:
        """As a table, with the largest values first, or in the order of the "program"."""
        return as_text(self._head, self._table(sort), self._foot, self._lives)

    def show(self, sort: str = "bytes") -> None:
        """Print the table, in colour on a terminal: what is computed again stands out."""
        head, rows = self._head, self._sorted(sort)
        styles: dict[int, Style] = {0: "bold", len(head) + 1: "faint"}
        styles |= {len(head) + 2 + i: "yellow" for i, row in enumerate(rows) if not row.kept}
        for place, line in enumerate(self.text(sort).splitlines()):
            print(painted(line, styles[place]) if place in styles else line)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return (
            f"<MemoryReport of {self.name}: at most {shown_bytes(self.peak)} live, "
            f"{shown_bytes(self.peak_of_all_kept)} if everything is kept>"
        )

    def _repr_html_(self) -> str:
        return as_html(self._head, self._table("bytes"), self._foot, self._lives)

    @property
    def _head(self) -> list[str]:
        head = (
            f"{self.name}: at most {shown_bytes(self.peak_of_all_kept)} are live if everything is "
            f"kept, {shown_bytes(self.peak)} as planned, {self.extra_share:.1%} computed again"
        )
        if self.is_estimated:
            by_xla = f"estimated: the compiler for {self._program.platform} is not here to count"
        else:
            counts = (self.bytes_by_xla_of_all_kept, self.bytes_by_xla)
            by_xla = "by XLA's count " + " and ".join(map(shown_bytes, counts))
        if self.budget is not None:
            by_xla += f", within a budget of {shown_bytes(self.budget)}"
        return [head, by_xla]

    def _sorted(self, sort: str) -> Sequence[Row]:
        if sort not in ORDERS:
            raise ValueError(f'`sort` is "bytes" or "program", found {sort!r}')
        return sorted(self.rows, key=lambda row: -row.bytes) if sort == "bytes" else self.rows

    def _table(self, sort: str) -> list[tuple[str, ...]]:
        titles = ("value", "bytes", "line", "needed by", "what becomes of it")
        return [titles, *map(cells, self._sorted(sort))]

    @property
    def _foot(self) -> list[str]:
        sums = [
            f"{what}: {shown_bytes(sum(row.bytes for row in rows))} in "
            f"{counted(len(rows), 'value')}"
            for what, rows in (
                ("kept", self.kept),
                ("on the host", self.on_host),
                ("computed again", self.recomputed),
            )
            if rows or what != "on the host"
        ]
        held = _held(self.at_peak)
        return ["; ".join(sums), f"at the peak, where `{self.peak_at}` is computed: {held}"]

    @property
    def _lives(self) -> dict[str, Sequence[int]]:
        return {"live before": self.live_of_all_kept, "live after": self.live}

    @property
    def _program(self) -> Program:
        return self.plan.program

    def _peak(self, plan: Plan) -> dict[str, Any]:
        by_xla = None
        if not self.is_estimated:
            by_xla = self.bytes_by_xla if plan is self.plan else self.bytes_by_xla_of_all_kept
        return {"predicted": plan.size, "by_xla": by_xla, "timeline": list(plan.placement.live)}

    @property
    def _peak_time(self) -> int:
        placement = self.plan.placement
        return placement.live.index(placement.peak) if placement.live else 0


def memory(
    mod: IRModule,
    name: str,
    *,
    budget: Budget | None = None,
    policy: str | None = None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
) -> MemoryReport:
    """Where the bytes of an adjoint go, as `Rematerialize` plans it with such options.

    `name` is a function that Gradient has written. Without any option it is looked at as it stands:
    what a plan before has written there is told.
    """
    if budget is None and policy is None:
        if not (must_keep or must_recompute):
            return report_as_written(mod, name)
        policy = "none"
    return planned_report(mod, name, budget, policy, must_keep, must_recompute)


def planned_report(
    mod: IRModule,
    name: str,
    budget: Budget | None,
    policy: str | None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
    jax_bytes: Callable[[], int] | None = None,
) -> MemoryReport:
    """Of an adjoint that has no plan, as planned with such options."""
    with lowering_for(mod.attrs.get(PLATFORM)):
        if policy != OFFLOAD:
            found = decided(mod, name, budget, policy, must_keep, must_recompute)
            if found.parts is None:
                return report_of(mod, name, found, jax_bytes=jax_bytes)
        made = with_plan(mod, name, budget, policy, must_keep, must_recompute)
        written = read_plan(made, name)
    return report_of(written.mod, name, written.decided, jax_bytes=jax_bytes)


def report_as_written(mod: IRModule, name: str, caller: Caller | None = None) -> MemoryReport:
    """Of an adjoint that is planned, or not: what it keeps and computes again as it stands."""
    with lowering_for(mod.attrs.get(PLATFORM)):
        found = read_plan(mod, name, caller)
    return report_of(found.mod, name, found.decided, caller)


def report_of(
    mod: IRModule,
    name: str,
    found: Decided,
    caller: Caller | None = None,
    jax_bytes: Callable[[], int] | None = None,
) -> MemoryReport:
    return MemoryReport(mod, name, found.planner, found.plan, found.limit, caller, jax_bytes)


def _named(buffer: Buffer) -> str:
    """A value as a person reads it, one that is computed again as such."""
    (var, again), _ = buffer
    return f"{var.name} again" if again else var.name


def _held(sizes: Mapping[str, int]) -> str:
    """What is live at once: the largest by name, the others together."""
    named = [f"{name} {shown_bytes(size)}" for name, size in list(sizes.items())[:_NAMED]]
    others = list(sizes.values())[_NAMED:]
    if others:
        named.append(f"{shown_bytes(sum(others))} in {counted(len(others), 'value')} more")
    return ", ".join(named) or "nothing"
