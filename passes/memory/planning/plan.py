"""A memory plan: the forward values that are kept for the backward part, and what that takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from relaxjax.ir.expr import Var

from ..program.program import Program
from ..program.schedule import Order, Task, extra_flops, schedule, with_late_draws
from ..storage.live_bytes import LiveBytes
from ..storage.memory_model import Kernels, MemoryModel, Placement
from ..storage.xla_cpu import XlaCpu

# The models of memory by platform. Of the compilers of the others nothing is predicted.
_MODELS: Mapping[str, MemoryModel] = {"cpu": XlaCpu()}
_OTHERWISE: MemoryModel = LiveBytes()
# Random numbers wait where that lowers a peak to this share of it: an element of a product is read
# for each, and BERT's steps then take 1.03 of the CPU time.
_BY_LATE_DRAWS = 0.95


@dataclass(frozen=True)
class Plan:
    """The forward values that are kept, and what follows from that."""

    program: Program
    kept: frozenset[Var]
    late: bool = False  # whether all that can wait for the backward part does
    orders: tuple[Order, ...] = ()  # what waits besides

    @property
    def model(self) -> MemoryModel:
        """What predicts the memory that it takes."""
        return _MODELS.get(self.program.platform, _OTHERWISE)

    @property
    def peak(self) -> int:
        """The most temporary bytes that are live at once."""
        return self.placement.peak

    @cached_property
    def size(self) -> int:
        """The temporary bytes that it is predicted to need: at the peak, there are gaps as well."""
        return self.placement.size

    @property
    def placement(self) -> Placement:
        """Where its values are stored."""
        return self.run.placement

    @property
    def kernels(self) -> Kernels:
        """What it stores."""
        return self.run.kernels

    @property
    def tasks(self) -> list[Task]:
        """The steps in their order, those among them that are made again too."""
        return self.run.tasks

    @cached_property
    def run(self) -> "Run":
        """What it runs. Random numbers wait for their layers where that may lower the peak.

        That is where it is predicted to, or where those of all layers at once are more than it.
        """
        run = self.run_of(schedule(self.program, self.kept, self.late, self.orders))
        drawn = sum(step.drawn_bytes for step in self.program.forward)
        if not (self.late and drawn):
            return run
        late = self.run_of(list(with_late_draws(run.tasks)))
        peak = late.placement.peak
        return late if peak <= max(_BY_LATE_DRAWS * run.placement.peak, drawn) else run

    def run_of(self, tasks: list[Task]) -> "Run":
        """The same of tasks in their order."""
        inside = {var: size_inside(loop) for var, loop in self.program.loops.items()}
        kernels = self.model.kernels(self.program, tasks, inside)
        return Run(tasks, kernels, self.model.placed(kernels))

    @cached_property
    def extra(self) -> int:
        """The flops of what is computed again."""
        if "run" in vars(self):  # its tasks are there, and tell it
            return sum(task.step.flops for task in self.run.tasks if task.again)
        return extra_flops(self.program, self.kept)

    @property
    def changes(self) -> bool:
        """Whether anything is computed a second time, or waits that did not."""
        return any(task.again or task.added for task in self.tasks)


class Run(NamedTuple):
    """Tasks in their order, what they store, and where."""

    tasks: list[Task]
    kernels: Kernels
    placement: Placement


@lru_cache(maxsize=64)
def size_inside(loop: Program) -> int:
    """The temporary bytes that a step of a loop takes."""
    return Plan(loop, frozenset()).size
