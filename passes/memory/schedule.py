"""A program in the order in which it is written, with chosen values computed again, or later."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType

from .moments import Moments
from .program import Program, Step, size_of

# A value of a schedule: its variable, and whether it is the copy that is computed again.
Value: TypeAlias = tuple[Var, bool]


@dataclass(frozen=True, slots=True)
class Wait:
    """That a task has its input `var` only once the value of `moment` is computed."""

    var: Var
    moment: Var


@dataclass(frozen=True, eq=False)
class Task:
    """A step as it is run: for the first time, or again for the backward program."""

    step: Step
    inputs: tuple[Value, ...]
    again: bool
    wait: Wait | None = None

    @cached_property
    def value(self) -> Value:
        return self.step.var, self.again


def schedule(program: Program, kept: Collection[Var], late: bool = False) -> list[Task]:
    """The tasks of a program that keeps the forward values `kept` for its backward part.

    Every other one is computed again where it is needed, just before its first use. With `late`,
    what the backward part could compute long before it is needed waits, too.
    """
    tasks = [_task(step, ()) for step in program.forward]
    dropped = {step.var for step in program.forward}.difference(kept)
    moments = Moments(program)
    copied: set[Var] = set()
    for step in program.backward:
        copies = [task for var in step.inputs for task in _copies(program, var, dropped, copied)]
        if copies:
            moment = moments.before(step, [task.step for task in copies])
            tasks.extend(_waiting(task, moment) for task in copies)
        task = _task(step, copied)
        tasks.append(_waiting(task, moments.if_early(step)) if late else task)
        moments.pass_by(step)
    return tasks


def _task(step: Step, copied: Collection[Var]) -> Task:
    """A step in its own place, reading copies where there are some."""
    inputs = tuple((v, v in copied) for v in step.inputs)
    if not (step.waits and len(inputs) == 2):
        return Task(step, inputs, False)
    return Task(step, inputs[:1], False, Wait(*step.inputs))


def extra_flops(tasks: Collection[Task]) -> int:
    """What is computed a second time."""
    return sum(task.step.flops for task in tasks if task.again)


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


def _waiting(task: Task, moment: Var | None) -> Task:
    """The task with the smallest of its tensors late, unless it reads a copy, which is late."""
    tensors = [var for var, _ in task.inputs if _can_be_late(var)]
    if moment is None or not tensors or any(again for _, again in task.inputs):
        return task
    return replace(task, wait=Wait(min(tensors, key=size_of), moment))


def _can_be_late(var: Var) -> bool:
    ty = var.ty
    return isinstance(ty, TensorType) and not (ty.dtype or "key<").startswith("key<")
