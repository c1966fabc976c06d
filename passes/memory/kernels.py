"""What XLA computes at once, and so the values of a schedule that have bytes of their own."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from relaxjax.ir.expr import Var

from .program import Program, Step, size_of
from .schedule import Task, Value

# Bytes of their own: those of a value, or of its copy for a reason, such as another layout.
Buffer: TypeAlias = tuple[Value, Hashable]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A buffer that is filled, with what is read for it and what it waits for besides."""

    buffer: Buffer
    size: int
    reads: tuple[Buffer, ...]
    after: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a schedule stores of its own, in its order, and which of it the function returns."""

    all: tuple[Kernel, ...]
    results: frozenset[Buffer]


def kernels(program: Program, tasks: Sequence[Task]) -> Kernels:
    """What a schedule stores beside its parameters.

    A view is read as what it is a view of, and a value that is computed inside all its consumers
    as what it is computed from. A convolution reads copies, laid out as it likes.
    """
    finder = _Finder(_unstored(program, tasks), program.in_place)
    for task in tasks:
        finder.add(task)
    sizes = {kernel.buffer: kernel.size for kernel in finder.found}
    results = {
        buffer
        for var in program.results
        for buffer in finder.roots.get((var, False), ())
        if sizes[buffer] <= size_of(var)  # and not only a part of it
    }
    return Kernels(tuple(finder.found), frozenset(results))


@dataclass
class _Finder:
    """Finds what each task reads and stores."""

    unstored: frozenset[Value]
    in_place: frozenset[Var]
    found: list[Kernel] = field(default_factory=list)
    roots: dict[Value, tuple[Buffer, ...]] = field(default_factory=dict)
    after: dict[Value, tuple[Buffer, ...]] = field(default_factory=dict)
    copies: set[Buffer] = field(default_factory=set)

    def add(self, task: Task) -> None:
        reads = tuple(dict.fromkeys(self.reads(task)))
        after = tuple(dict.fromkeys(self.waits(task)))
        if task.value in self.unstored:
            self.roots[task.value], self.after[task.value] = reads, after
        else:
            size = 0 if task.step.var in self.in_place else task.step.size
            self.store((task.value, None), size, reads, after)
            self.roots[task.value] = ((task.value, None),)

    def store(
        self, buffer: Buffer, size: int, reads: tuple[Buffer, ...], after: tuple[Buffer, ...]
    ) -> None:
        self.found.append(Kernel(buffer, size, reads, after))

    def reads(self, task: Task) -> Iterator[Buffer]:
        layouts = task.step.layouts
        for value in task.inputs:
            reason: Hashable = layouts.get(value[0])
            if task.wait is not None and value[0] is task.wait.var and not self.fuses(task):
                reason = task.wait.moment
            if reason is None:
                yield from self.roots.get(value, ())
            else:
                yield self.copy(value, reason, task)

    def fuses(self, task: Task) -> bool:
        """Whether what is late is so inside what the task computes."""
        return task.step.fusible and not (task.step.is_transpose and task.value in self.unstored)

    def copy(self, value: Value, reason: Hashable, task: Task) -> Buffer:
        """A copy of what a task reads, unless there is one already."""
        buffer = (value, reason)
        if buffer not in self.copies:
            self.copies.add(buffer)
            after = self.after.get(value, ())
            if task.wait is not None and reason is task.wait.moment:
                after = (*after, *self.roots.get((task.wait.moment, False), ()))
            self.store(buffer, size_of(value[0]), self.roots.get(value, ()), after)
        return buffer

    def waits(self, task: Task) -> Iterator[Buffer]:
        """What a task waits for: its own moment, and those of what is computed inside it."""
        for value in task.inputs:
            yield from self.after.get(value, ())
        if task.wait is not None:
            yield from self.roots.get((task.wait.moment, False), ())


@dataclass
class _Use:
    """How the consumers of a value consume it."""

    fusibly: bool = True  # all compute it inside them if they can
    by_products: bool = True  # all are products of matrices
    by_reduction: bool = False  # some is a reduction
    count: int = 0

    def add(self, other: "_Use") -> None:
        self.fusibly &= other.fusibly
        self.by_products &= other.by_products
        self.by_reduction |= other.by_reduction
        self.count += other.count


# What is held back is copied, by a kernel that computes it too.
_HELD = _Use(True, False, False, 1)


def _unstored(program: Program, tasks: Sequence[Task]) -> frozenset[Value]:
    """The values without bytes of their own."""
    uses = _uses(program, tasks)
    found: set[Value] = set()
    expensive: set[Value] = set()
    for task in tasks:
        step, use = task.step, uses.get(task.value, _Use())
        if step.var in program.results and not step.is_view:
            continue
        if _is_view(step, use):
            found.add(task.value)
        elif use.count and use.fusibly and _can_be_inside(step, use):
            dear = step.expensive or not expensive.isdisjoint(task.inputs)
            if not dear or use.count == 1:
                found.add(task.value)
            if dear and use.count == 1:
                expensive.add(task.value)
    return frozenset(found)


def _uses(program: Program, tasks: Sequence[Task]) -> dict[Value, _Use]:
    found: dict[Value, _Use] = {}
    for task in reversed(tasks):
        step, use = task.step, found.get(task.value, _Use())
        if _is_view(step, use) and step.var not in program.results:
            use = _Use(use.fusibly, False, use.by_reduction, use.count)
        else:
            inside = step.is_arithmetic and use.by_reduction and use.count == 1
            use = _Use(step.fusible, step.is_product, step.is_reduction or inside, 1)
        for value in dict.fromkeys(task.inputs):
            is_held = task.wait is not None and value[0] is task.wait.var
            found.setdefault(value, _Use()).add(_HELD if is_held and not step.fusible else use)
    return found


def _is_view(step: Step, use: _Use) -> bool:
    """Whether a value needs no bytes; a product reads a matrix across without copying it."""
    return step.is_view or (step.is_transpose and use.by_products and use.count > 0)


def _can_be_inside(step: Step, use: _Use) -> bool:
    return step.is_arithmetic if use.by_reduction else step.pointwise
