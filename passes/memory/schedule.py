"""A program in the order in which it is written, with chosen values computed again, or later."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
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

    @property
    def is_late(self) -> bool:
        """Whether it waits for something, or reads a copy that does."""
        return self.wait is not None or any(again for _, again in self.inputs)


def schedule(program: Program, kept: Collection[Var], late: bool = False) -> list[Task]:
    """The tasks of a program that keeps the forward values `kept` for its backward part.

    Every other one is computed again where it is needed, just before its first use, if that can
    be held back until then. Large gradients come when they can be used. With `late`, all that the
    backward part could compute long before it is needed waits.
    """
    tasks = [_task(step, ()) for step in program.forward]
    moments = Moments(program)
    copier = _Copier(program, _dropped(program, kept))
    for step in program.backward:
        tasks.extend(copier.copies(step, moments))
        task = _task(step, copier.copied)
        if step.var not in program.foreign:
            task = _waiting(task, moments.if_early(step) if late else moments.if_alone(step))
        tasks.append(task)
        moments.pass_by(step)
    return tasks


def _dropped(program: Program, kept: Collection[Var]) -> frozenset[Var]:
    """The forward values that are gone by the backward part: neither kept nor views of what is."""
    dropped: set[Var] = set()
    forward = {step.var for step in program.forward}
    for step in program.forward:
        inputs = [var for var in step.inputs if var in forward]
        at_hand = step.is_view and dropped.isdisjoint(inputs)
        if step.var not in kept and not at_hand:
            dropped.add(step.var)
    return frozenset(dropped)


def _task(step: Step, copied: Collection[Var], again: bool = False) -> Task:
    """A step, reading copies where there are some."""
    inputs = tuple((v, v in copied) for v in step.inputs)
    if not (step.waits and len(inputs) == 2):
        return Task(step, inputs, again)
    return Task(step, inputs[:1], again, Wait(*step.inputs))


def extra_flops(tasks: Collection[Task]) -> int:
    """What is computed a second time."""
    return sum(task.step.flops for task in tasks if task.again)


@dataclass
class _Copier:
    """Computes values again, each once, and never so early that it were as good as kept."""

    program: Program
    dropped: frozenset[Var]
    copied: set[Var] = field(default_factory=set)

    def copies(self, user: Step, moments: Moments) -> Iterator[Task]:
        """The copies that a step needs, in order."""
        steps = list(self._missing(user.inputs))
        moment = moments.before(steps) if steps else None
        if moment is None:
            return
        for step in steps:
            task = _waiting(_task(step, self.copied, True), moment)
            if task.is_late:
                self.copied.add(step.var)
                yield task

    def _missing(self, needed: Iterable[Var]) -> Iterator[Step]:
        """What computes `needed`, the inputs of each step before it."""
        pending = [(var, False) for var in reversed(tuple(needed))]
        done: set[Var] = set()
        while pending:
            var, ready = pending.pop()
            if var not in self.dropped or var in self.copied or var in done:
                continue
            step = self.program.step_of[var]
            if ready:
                done.add(var)
                yield step
            else:
                pending.append((var, True))
                pending.extend((v, False) for v in reversed(step.inputs))


def _waiting(task: Task, moment: Var | None) -> Task:
    """The task with the smallest of its tensors late, unless it reads a copy, which is late.

    Of one that writes into a tensor, it is that: XLA has room for it from when it can be had.
    """
    tensors = [var for var, _ in task.inputs if isinstance(var.ty, TensorType)]
    writes = task.step.is_written and task.wait is None and not task.inputs[0][1]
    if moment is None or not tensors or (task.is_late and not writes):
        return task
    var = tensors[0] if writes else min(tensors, key=size_of)
    return replace(task, wait=Wait(var, moment))
