"""Letting what is there at the peak wait until other values are gone.

XLA computes what it can as soon as it can, so the operands of one convolution are copied while
those of another are still there. Where the one waits for the other, they share their memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from relaxjax.ir.tensor_types import has_floats

from ..program.schedule import Order
from ..storage.memory_model import Buffer, Kernel, Kernels, Placement
from .plan import Plan

# What is smaller than the peak by this factor is not worth a wait.
_SMALL = 50
# So many kernels are placed in a search, those of each order that is tried counted: the first for
# who asked for little memory, the second for everybody.
_PLACED, PLACED_BY_DEFAULT = 60_000, 10_000
# What is live beyond this share of the peak is to become less, by an order that is taken to this
# share of it, and to that by one that is so good that no other is tried.
_HIGH = 0.9
_LESS = 0.9
_MUCH_LESS = 0.3


def ordered(plan: Plan, most: int = _PLACED, again: bool = True) -> Plan:
    """The plan with orders that lower its peak, as far as some tries find them.

    What is taken leaves less that is live near the peak, because there may be several as high. Only
    where it says so, what is computed `again` may wait: what that saves is predicted less well.
    """
    if plan.model.runs_as_written:
        return plan
    left = most
    refused: set[Order] = set()
    while True:
        high = int(_HIGH * plan.peak)
        before, best = _beyond(plan.placement, high), None
        for edge in _Edges(plan):
            if left <= 0:
                break
            if edge.order in refused or (edge.is_again and not again):
                continue
            tried = plan.model.placed(edge.added(plan.kernels))
            left -= len(plan.kernels.all)
            found = _beyond(tried, high)
            if tried.peak <= plan.peak and (best is None or found < best[0]):
                best = found, edge.order
            if best is not None and best[0] <= _MUCH_LESS * before:
                break
        if best is None or best[0] > _LESS * before:
            return plan
        other = replace(plan, orders=(*plan.orders, best[1]))
        if other.peak <= plan.peak and _beyond(other.placement, high) <= _LESS * before:
            plan = other
        else:
            refused.add(best[1])


def _beyond(placement: Placement, high: int) -> int:
    """The bytes beyond so many that are live, in all kernels together."""
    return sum(live - high for live in placement.live if live > high)


@dataclass(frozen=True)
class _Edge:
    """An order, and the kernel that has to be run before another to keep it."""

    order: Order
    late: Buffer
    moment: Buffer

    @property
    def is_again(self) -> bool:
        (_, is_again), reason = self.late
        return is_again and reason is None

    def added(self, kernels: Kernels) -> Kernels:
        return replace(kernels, all=tuple(map(self._kernel, kernels.all)))

    def _kernel(self, kernel: Kernel) -> Kernel:
        if kernel.buffer != self.late:
            return kernel
        return replace(kernel, after=(*kernel.after, self.moment))


class _Edges:
    """The orders that may lower the peak of a plan, those of large values first."""

    def __init__(self, plan: Plan) -> None:
        self.program = plan.program
        self.placement = plan.placement
        self.order = plan.placement.order
        self.backward = {step.var for step in plan.program.backward} - plan.program.foreign
        live = plan.placement.live
        self.time = max(range(len(live)), key=live.__getitem__, default=0)
        # What each kernel needs, itself too, as the bits of a number.
        self.bit = {kernel.buffer: 1 << time for time, kernel in enumerate(self.order)}
        self.behind: dict[Buffer, int] = {}
        self.readers: dict[Buffer, list[Buffer]] = {}
        for kernel in self.order:
            own = self.bit[kernel.buffer]
            for buffer in (*kernel.reads, *kernel.after):
                own |= self.behind.get(buffer, 0)
            self.behind[kernel.buffer] = own
            for buffer in kernel.reads:
                self.readers.setdefault(buffer, []).append(kernel.buffer)

    def __iter__(self) -> Iterator[_Edge]:
        if not self.order:
            return
        lives, now = self.placement.lives, self.time
        least = self.placement.peak // _SMALL
        there = [b for b, (start, end, size) in lives.items() if start <= now <= end]
        large = sorted((b for b in there if lives[b][2] >= least), key=lambda b: -lives[b][2])
        ends = [self.order[time].buffer for time in sorted({now, *(lives[b][1] for b in large)})]
        current = self.order[now].buffer
        seen: set[tuple[Buffer, Buffer]] = set()
        for buffer in large:
            later = [(buffer, moment) for moment in ends]
            last = [r for r in self.readers.get(buffer, ()) if self.bit[r] >> (now + 1)]
            earlier = [(late, reader) for reader in last for late in (current, *large)]
            for late, moment in (*later, *earlier):
                if (late, moment) not in seen and self._is_possible(late, moment):
                    seen.add((late, moment))
                    yield _Edge(Order(*late, moment[0][0]), late, moment)

    def _is_possible(self, late: Buffer, moment: Buffer) -> bool:
        if not (self._can_wait(late) and self._can_be_waited_for(moment)):
            return False
        return not (self.behind[moment] & self.bit[late] or self.behind[late] & self.bit[moment])

    def _can_wait(self, buffer: Buffer) -> bool:
        """Whether it is the value of a task of the way back, or a copy for such."""
        (var, again), reason = buffer
        if var in self.program.loops:
            return False
        return again or var in self.backward or reason is not None

    def _can_be_waited_for(self, buffer: Buffer) -> bool:
        (var, again), reason = buffer
        return reason is None and not again and var in self.backward and has_floats(var.ty)
