"""What need not be computed again: values whose bytes fit below the peak that a plan has anyhow."""

from collections.abc import Iterable, Mapping

import numpy as np

from relaxjax.ir.expr import Var

from ..program.schedule import Value
from ..program.step import Step
from ..storage.heap import Numbers
from .plan import Plan

# By how much smaller than the peak a value is that stays as the plan has it. What is computed again
# of kept values alone waits by itself, and XLA computes it inside of others less well: where the
# rows of its small kernels are kept, MobileNet repeats two depthwise convolutions in nine sums.
_SMALLER = 1024


def fitting(plan: Plan, most: int) -> frozenset[Var]:
    """What is computed again, but may as well be kept with a peak of about so many bytes.

    The smallest come first, as many as can be. How long each would be live is guessed by the
    kernels of the plan: that less is computed again by then is not counted.
    """
    room, spans, found = _Room(plan), _spans(plan), set[Var]()
    for step in _candidates(plan):
        if room.takes(step, *spans[step.var], most):
            found.add(step.var)
    return frozenset(found)


def _candidates(plan: Plan) -> list[Step]:
    """What the backward part reads that is computed again: of one size, the dearest first."""
    residuals = {step.var for step in plan.program.residuals}
    again = [task for task in plan.tasks if task.again]
    needed: dict[Var, int] = {}  # the operations that compute each again, as bits
    for place, task in enumerate(again):
        needed[task.step.var] = 1 << place
        for var, is_again in task.inputs:
            needed[task.step.var] |= needed[var] if is_again else 0
    steps = [task.step for task in again if task.step.var in residuals]
    large = [step for step in steps if _SMALLER * step.size > plan.peak]
    return sorted(large, key=lambda step: (step.size, -needed[step.var].bit_count()))


class _Room:
    """The bytes that are live at each kernel of a plan, and of what else is kept."""

    def __init__(self, plan: Plan) -> None:
        self.live: Numbers = np.array(plan.placement.live, np.int64)
        self.lives: dict[Value, list[tuple[int, int, int]]] = {}
        for (value, _), life in plan.placement.lives.items():
            self.lives.setdefault(value, []).append(life)

    def takes(self, step: Step, start: int, end: int, most: int) -> bool:
        """Whether a value can be live from one kernel to another; then it is from now on."""
        added = np.full(end + 1 - start, step.size, np.int64)
        # Its bytes are live already where it is stored, for the first time or again.
        for value in ((step.var, False), (step.var, True)):
            for first, last, size in self.lives.get(value, ()):
                part = added[max(first - start, 0) : max(last + 1 - start, 0)]
                np.maximum(part - size, 0, out=part)
        if (self.live[start : end + 1] + added).max(initial=0) > most:
            return False
        self.live[start : end + 1] += added
        return True


def _spans(plan: Plan) -> Mapping[Var, tuple[int, int]]:
    """The kernels at which each value would be computed and needed last, if it were kept."""
    at: dict[Value, int] = {}
    for place, kernel in enumerate(plan.placement.order):
        at.setdefault(kernel.buffer[0], place)
    start: dict[Value, int] = {}
    for task in plan.tasks:
        own = at.get(task.value)
        start[task.value] = _last(start, task.inputs) if own is None else own
    end = dict(start)
    for task in reversed(plan.tasks):
        done = at.get(task.value, end[task.value])
        for value in task.inputs:
            if end.get(value, -1) < done:
                end[value] = done
    return {
        var: (start[var, False], max(end[var, False], end.get((var, True), 0)))
        for var, again in start
        if not again
    }


def _last(places: Mapping[Value, int], values: Iterable[Value]) -> int:
    return max((places.get(value, 0) for value in values), default=0)
