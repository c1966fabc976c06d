"""A model of memory that knows no compiler: each value is stored from when it is computed on."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.expr import Var

from ..loops.host_stacks import bytes_on_host
from ..program.program import Program
from ..program.schedule import Task, Value
from ..program.step import Step
from .heap import Life
from .memory_model import Buffer, Kernel, Kernels, Placement
from .needed import needed


class LiveBytes:
    """The model for GPUs and TPUs: kernels run in the order in which they are written.

    A pointwise value that one step alone reads, and that this can compute inside, is not stored.
    Nor is a view, a matrix that products read across, a result that takes the memory of an
    argument, or what is sent to the host.
    """

    runs_as_written = True

    def kernels(
        self, program: Program, tasks: Sequence[Task], inside: Mapping[Var, int]
    ) -> Kernels:
        tasks = needed(program, tasks)
        fused = _fused(program, tasks)
        roots: dict[Value, tuple[Buffer, ...]] = {
            (var, False): (((to, False), None),) for var, to in program.given.items()
        }
        found: list[Kernel] = []
        for task in tasks:
            if task.value in roots:  # a part of a parameter
                continue
            reads = tuple(dict.fromkeys(buffer for v in task.inputs for buffer in roots.get(v, ())))
            if task.step.is_view or task.step.is_closure or task.value in fused:
                roots[task.value] = reads
                continue
            buffer: Buffer = (task.value, None)
            size = _size(program, task.step)
            over = frozenset(reads[:1]) if task.step.is_written else frozenset[Buffer]()
            found.append(Kernel(buffer, size, reads, (), over))
            if task.step.var in inside:  # what a loop takes while it runs, beside its results
                step: Buffer = (task.value, "a step")
                found.append(Kernel(step, inside[task.step.var], (*reads, buffer), ()))
            roots[task.value] = (buffer,)
        results = {buffer for var in program.results for buffer in roots.get((var, False), ())}
        return Kernels(tuple(found), frozenset(results), ())

    def placed(self, kernels: Kernels) -> Placement:
        ends: dict[Buffer, int] = {}
        for time, kernel in enumerate(kernels.all):
            ends |= dict.fromkeys((kernel.buffer, *kernel.reads), time)
        lives: dict[Buffer, Life] = {}
        takers: dict[Buffer, Buffer] = {}
        for time, kernel in enumerate(kernels.all):
            if kernel.buffer in kernels.results or not kernel.size:
                continue
            start, size = time, kernel.size
            for over in kernel.over:
                first = takers.get(over, over)
                if first in lives and ends[over] == time:
                    takers[kernel.buffer] = first
                    start, _, size = lives[first]
            lives[takers.get(kernel.buffer, kernel.buffer)] = start, ends[kernel.buffer], size
        return Placement(kernels.all, lives, takers)


def _size(program: Program, step: Step) -> int:
    """The bytes that a step takes on the device for what it gives."""
    if step.is_sent or step.var in program.in_place:
        return 0
    loop = program.loops.get(step.var)
    return step.size if loop is None else step.size - bytes_on_host(loop.function, step.var)


def _fused(program: Program, tasks: Sequence[Task]) -> set[Value]:
    """What is computed inside of the one step that reads it, or of products."""
    readers: dict[Value, list[Step]] = {}
    for task in tasks:
        for value in dict.fromkeys(task.inputs):
            readers.setdefault(value, []).append(task.step)

    def is_inside(task: Task) -> bool:
        found = readers.get(task.value, [])
        if task.step.is_transpose and found and all(step.is_product for step in found):
            return True
        return task.step.pointwise and len(found) == 1 and found[0].fusible

    return {
        task.value for task in tasks if task.step.var not in program.results and is_inside(task)
    }
