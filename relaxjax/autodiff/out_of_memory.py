"""What is said where a device has no memory left for a training step."""

import re
from collections.abc import Callable
from typing import Any

from jax.errors import JaxRuntimeError

from relaxjax.ir.tables import shown_bytes
from relaxjax.passes.memory.planning.bound import least_bytes
from relaxjax.passes.memory.program.step import MemoryPlanError
from relaxjax.passes.memory.report.memory_report import MemoryReport

# As XLA says it on each platform: when it compiles, starts a program, or gives the result.
_EXHAUSTED = re.compile(r"RESOURCE_EXHAUSTED|[Oo]ut of memory")
_ASKED = re.compile(r"allocat\w+ (\d+) bytes")
_MIB = 2**20
_NAMED = 3  # of the values at the peak
_SPARE = 1.05  # for what a prediction is wrong by
_WORTH = 0.9  # a budget is worth a try that is at most this share of what is needed


class OutOfMemoryError(MemoryError):
    """A device has no memory left for a training step; the message says what budget to try."""


class ToldOfMemory:
    """Where XLA runs out of memory inside, say where that goes, and what to do.

    It is entered at each step, which a context manager made of a generator would take longer for.
    """

    def __init__(self, report: Callable[[], MemoryReport]) -> None:
        self._report = report

    def __enter__(self) -> None:
        """Nothing is known yet."""

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, JaxRuntimeError) and _EXHAUSTED.search(str(error)):
            raise OutOfMemoryError(_message(str(error), self._report)) from error


def _message(said: str, report: Callable[[], MemoryReport]) -> str:
    asked = _ASKED.search(said)
    found = "the device has no memory left for a training step"
    if asked is not None:
        count = int(asked[1])
        found += f": XLA asked for {shown_bytes(count)} ({count:,} bytes) at once"
    try:
        return f"{found}. {_advice(report())}"
    except MemoryPlanError:  # of a model for batches of any size
        return f"{found}. Take smaller batches, or another memory_policy or memory_budget"


def _advice(report: MemoryReport) -> str:
    """Where the bytes of a step go, and the budget that is half of them, if one may be kept."""
    peak = report.peak
    largest = list(report.at_peak.items())[:_NAMED]
    held = ", ".join(f"`{name}` {shown_bytes(size)}" for name, size in largest)
    planned = (
        f"As planned, a step holds {shown_bytes(peak)} beside its arguments and results, where "
        f"`{report.peak_at}` is computed: {held or 'nothing'}"
    )
    if report.budget is not None:
        planned += f"; its budget is {shown_bytes(report.budget)}"
    return f"{planned}. {_what_to_try(report)}"


def _what_to_try(report: MemoryReport) -> str:
    """A budget that a plan is predicted to keep, or why there is none."""
    least = least_bytes(report.planner.program)
    budget = -(-int(_SPARE * report.planner.balanced.size) // _MIB)
    if budget * _MIB <= _WORTH * report.peak:
        return (
            f'Try memory_budget="{budget}MiB", or smaller batches, which accumulate= of '
            "Trainer.from_jax makes of one"
        )
    if least.step is None:
        return "Take smaller batches: no plan that saves much is known"
    span = least.step.span
    place = "" if span is None else f", {span.shown_file}:{span.line}"
    return (
        f"Take smaller batches: no plan that saves much is known, and none can need less than "
        f"{shown_bytes(least.bytes)}, for `{least.step.var.name}`{place}"
    )
