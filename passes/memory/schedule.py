"""A program in the order in which it runs, with chosen values computed again, and what it takes."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.expr import Var

from .program import Program, Step

# A value of a schedule: its variable, and whether it is the copy that is computed again.
Value: TypeAlias = tuple[Var, bool]


@dataclass(frozen=True, slots=True)
class Task:
    """A step as it is run: for the first time, or again for the backward program."""

    step: Step
    inputs: tuple[Value, ...]
    again: bool

    @property
    def value(self) -> Value:
        return self.step.var, self.again


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that are live at once, and the task at which they are."""

    size: int
    task: Task | None


def schedule(program: Program, kept: Collection[Var]) -> list[Task]:
    """The tasks of a program that keeps the forward values `kept` for its backward part.

    Every other one is computed again where it is needed, just before its first use.
    """
    tasks = [Task(step, tuple((v, False) for v in step.inputs), False) for step in program.forward]
    dropped = {step.var for step in program.forward}.difference(kept)
    copied: set[Var] = set()
    for step in program.backward:
        for var in step.inputs:
            tasks.extend(_copies(program, var, dropped, copied))
        tasks.append(Task(step, tuple((v, v in copied) for v in step.inputs), False))
    return tasks


def _copies(
    program: Program, needed: Var, dropped: Collection[Var], copied: set[Var]
) -> Iterator[Task]:
    """What computes `needed` again, its inputs before it, unless it is kept or there already."""
    pending = [(needed, False)]
    while pending:
        var, ready = pending.pop()
        if var not in dropped or var in copied:
            continue
        step = program.step_of[var]
        if ready:
            copied.add(var)
            yield Task(step, tuple((v, v in copied) for v in step.inputs), True)
        else:
            pending.append((var, True))
            pending.extend((v, False) for v in reversed(step.inputs))


def extra_flops(tasks: Collection[Task]) -> int:
    """What is computed a second time."""
    return sum(task.step.flops for task in tasks if task.again)


def live_bytes(program: Program, tasks: list[Task]) -> list[int]:
    """The bytes that are live while each task runs: its inputs, its value and what waits.

    A parameter and a result are the caller's and count for nothing; a view counts as what it is a
    view of; a value that XLA computes inside all its consumers counts as what it is computed from.
    """
    stored = _stored(program, tasks)
    roots: dict[Value, tuple[Value, ...]] = {}
    last: dict[Value, int] = {}
    for index, task in enumerate(tasks):
        read = dict.fromkeys(root for value in task.inputs for root in roots.get(value, (value,)))
        if task.value in stored:
            roots[task.value] = (task.value,)
            last.update(dict.fromkeys(read, index))
            last.setdefault(task.value, index)
        else:
            roots[task.value] = tuple(read)
    for var in program.results:
        last.update(dict.fromkeys(roots.get((var, False), ()), len(tasks)))
    return list(_running(program, tasks, stored, last))


def _stored(program: Program, tasks: list[Task]) -> set[Value]:
    """The values that have bytes of their own."""
    users: dict[Value, list[Step]] = {}
    for task in tasks:
        for value in task.inputs:
            users.setdefault(value, []).append(task.step)
    found: set[Value] = set()
    expensive: set[Value] = set()  # what is not stored, and is expensive to compute
    for task in tasks:
        step, using = task.step, users.get(task.value, [])
        if step.var in program.results:
            found.add(task.value)
        elif not step.is_view:
            dear = step.expensive or not expensive.isdisjoint(task.inputs)
            inside = step.pointwise and all(user.fusible or user.is_view for user in using)
            if not inside or (dear and len(using) > 1):
                found.add(task.value)
            elif dear:
                expensive.add(task.value)
    return found


def _running(
    program: Program, tasks: list[Task], stored: set[Value], last: dict[Value, int]
) -> Iterator[int]:
    ends: dict[int, int] = {}
    live = 0
    for index, task in enumerate(tasks):
        if task.value in stored and task.step.var not in program.results:
            live += task.step.size
            end = last[task.value]
            ends[end] = ends.get(end, 0) + task.step.size
        yield live
        live -= ends.pop(index, 0)


def peak(program: Program, tasks: list[Task]) -> Peak:
    """The most that is live at once."""
    sizes = live_bytes(program, tasks)
    if not sizes:
        return Peak(0, None)
    index = max(range(len(sizes)), key=sizes.__getitem__)
    return Peak(sizes[index], tasks[index])
