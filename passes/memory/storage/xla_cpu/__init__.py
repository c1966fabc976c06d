"""What XLA's compiler for CPUs stores of a program, predicted rule by rule."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.expr import Var

from ...program.program import Program
from ...program.schedule import Task
from ..memory_model import Kernels, Placement
from .kernels import kernels
from .placement import placed


class XlaCpu:
    """The model of memory for CPUs."""

    runs_as_written = False

    def kernels(
        self, program: Program, tasks: Sequence[Task], inside: Mapping[Var, int]
    ) -> Kernels:
        return kernels(program, tasks, inside)

    def placed(self, kernels: Kernels) -> Placement:
        return placed(kernels)
