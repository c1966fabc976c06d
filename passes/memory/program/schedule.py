"""A program in the order in which it is written, with chosen values computed again, or later."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType

from .found_once import found_once
from .program import Program
from .step import Step, size_of
from .waits import Draws, Waits

# A value of a schedule: its variable, and whether it is the copy that is computed again.
Value: TypeAlias = tuple[Var, bool]


@dataclass(frozen=True, slots=True)
class Wait:
    """That a task has its input `value` only once that of `moment` is computed."""

    value: Value
    moment: Var


@dataclass(frozen=True, eq=False)
class Task:
    """A step as it is run: for the first time, or again for the backward program."""

    step: Step
    inputs: tuple[Value, ...]
    again: bool
    waits: tuple[Wait, ...] = ()  # at most one for each of its inputs

    @found_once
    def value(self) -> Value:
        return self.step.var, self.again

    @property
    def is_late(self) -> bool:
        """Whether it waits for something, or reads a copy that does."""
        return bool(self.waits) or any(again for _, again in self.inputs)

    @property
    def added(self) -> tuple[Wait, ...]:
        """The waits that its step does not have by itself."""
        return self.waits[1:] if self.step.waits else self.waits

    def wait_for(self, value: Value) -> Wait | None:
        """What it waits for before it has one of its inputs."""
        for wait in self.waits:
            if wait.value == value:
                return wait
        return None


@dataclass(frozen=True, slots=True)
class Order:
    """That a value waits for that of `moment`, or only its copies for a `reason`.

    That is the layout in which convolutions read it, the bytes that sums read it from, or what
    they wait for without the order.
    """

    value: Value
    reason: Hashable
    moment: Var

    def held(self, task: Task) -> Value | None:
        """What a task has later by it."""
        if self.reason is None and task.value == self.value:
            tensors = [v for v in task.inputs if isinstance(v[0].ty, TensorType)]
            free = [value for value in tensors if task.wait_for(value) is None]
            return min(free, key=lambda value: size_of(value[0]), default=None)
        if self.reason is None or self.value not in task.inputs:
            return None
        wait, layout = task.wait_for(self.value), task.step.layouts.get(self.value[0])
        if wait is not None:
            is_read_so = wait in task.added and wait.moment is self.reason
        else:
            is_read_so = task.step.is_sum if layout is None else layout == self.reason
        return self.value if is_read_so else None


def schedule(
    program: Program, kept: Collection[Var], late: bool = False, orders: Iterable[Order] = ()
) -> list[Task]:
    """The tasks of a program that keeps the forward values `kept` for its backward part.

    Every other one is computed again where it is needed, just before its first use, if that can
    be held back until then. Large gradients come when they can be used. With `late`, all that the
    backward part could compute long before it is needed waits.
    """
    course = _course(program)
    tasks = list(course.forward)
    copier = _Copier(program, _dropped(course, kept))
    for turn in course.backward:
        tasks.extend(copier.copies(turn))
        tasks.append(turn.task(copier.copied, late))
    for order in orders:
        tasks = _in_order(tasks, order)
    return tasks


def with_late_draws(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks, of which those that draw random numbers for the first time wait for a product."""
    draws = Draws()
    for task in tasks:
        if task.again:
            yield task
        else:
            yield _waiting(task, draws.moment(task.step))
            draws.pass_by(task.step)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A step of the backward part, and what it may wait for, whatever is computed again."""

    step: Step
    latest: Var | None  # what tells best how far the backward part is by then
    moments: tuple[Var | None, Var | None]  # what it waits for itself, and with all that can wait
    plain: tuple[Task, Task]  # where it reads no copy

    @staticmethod
    def of(program: Program, step: Step, waits: Waits) -> "_Turn":
        found = (waits.if_alone(step), waits.if_early(step))
        if step.var in program.foreign:
            found = (None, None)
        first, second = (_waiting(task_of(step), moment) for moment in found)
        return _Turn(step, waits.latest, found, (first, second))

    def task(self, copied: set[Var], late: bool) -> Task:
        if copied.isdisjoint(self.step.inputs):
            return self.plain[late]
        return _waiting(task_of(self.step, copied), self.moments[late])


@dataclass(frozen=True, slots=True)
class _Course:
    """What is the same in all schedules of a program."""

    forward: tuple[Task, ...]
    inputs: tuple[tuple[Var, ...], ...]  # what of the forward part each step of it reads
    backward: tuple[_Turn, ...]


@lru_cache(maxsize=16)
def _course(program: Program) -> _Course:
    own = {step.var for step in program.forward}
    inputs = (tuple(var for var in step.inputs if var in own) for step in program.forward)
    waits, turns = Waits(program), []
    for step in program.backward:
        turns.append(_Turn.of(program, step, waits))
        waits.pass_by(step)
    return _Course(tuple(map(task_of, program.forward)), tuple(inputs), tuple(turns))


def _in_order(tasks: list[Task], order: Order) -> list[Task]:
    """The tasks with an order kept, if its moment needs nothing of what is to wait for it."""
    before: list[Task] = []
    moved: list[Task] = []
    late: set[Value] = set()
    for place, own in enumerate(tasks):
        task = _holding(own, order)
        needed = [*task.inputs, *((wait.moment, False) for wait in task.waits)]
        is_moment = task.value == (order.moment, False)
        if task is own and late.isdisjoint(needed):
            before.append(task)
        elif is_moment:
            return tasks
        else:
            late.add(task.value)
            moved.append(task)
        if is_moment:
            return [*before, *moved, *(_holding(task, order) for task in tasks[place + 1 :])]
    return tasks


def _holding(task: Task, order: Order) -> Task:
    """The task with what it has later by an order."""
    held = order.held(task)
    if held is None:
        return task
    others = tuple(wait for wait in task.waits if wait.value != held)
    return replace(task, waits=(*others, Wait(held, order.moment)))


def _dropped(course: _Course, kept: Collection[Var]) -> frozenset[Var]:
    """The forward values that are gone by the backward part: neither kept nor views of what is."""
    dropped: set[Var] = set()
    for task, inputs in zip(course.forward, course.inputs, strict=True):
        step = task.step
        if step.var not in kept and not (step.is_view and dropped.isdisjoint(inputs)):
            dropped.add(step.var)
    return frozenset(dropped)


def task_of(step: Step, copied: Collection[Var] = (), again: bool = False) -> Task:
    """A step, reading copies where there are some."""
    inputs = tuple((v, v in copied) for v in step.inputs)
    if not (step.waits and len(inputs) == 2):
        return Task(step, inputs, again)
    return Task(step, inputs[:1], again, (Wait(inputs[0], step.inputs[1]),))


def extra_flops(program: Program, kept: Collection[Var]) -> int:
    """What a schedule that keeps these forward values computes a second time."""
    course = _course(program)
    copier = _Copier(program, _dropped(course, kept))
    return sum(step.flops for turn in course.backward for step in copier.steps(turn))


@dataclass
class _Copier:
    """Computes values again, each once, and never so early that it were as good as kept."""

    program: Program
    dropped: frozenset[Var]
    copied: set[Var] = field(default_factory=set)

    def copies(self, turn: _Turn) -> Iterator[Task]:
        """The copies that a step needs, in order."""
        for step in self.steps(turn):
            yield _waiting(task_of(step, self.copied, True), turn.latest)

    def steps(self, turn: _Turn) -> list[Step]:
        """What these compute: steps that wait for a moment, or read what does."""
        if self.dropped.isdisjoint(turn.step.inputs):
            return []
        steps = self._missing(turn.step.inputs)
        depth, moment = self.program.depth, turn.latest
        # What they wait for lies behind more steps than they do: what only transposes a parameter,
        # say, tells nothing.
        if not steps or moment is None or depth[moment] <= max(depth[s.var] for s in steps):
            return []
        found = []
        for step in steps:
            if any(isinstance(v.ty, TensorType) or v in self.copied for v in step.inputs):
                self.copied.add(step.var)
                found.append(step)
        return found

    def _missing(self, needed: Sequence[Var]) -> list[Step]:
        """What computes `needed`, the inputs of each step before it."""
        dropped, copied, done = self.dropped, self.copied, dict[Var, Step]()
        pending = [(var, False) for var in reversed(needed) if var in dropped]
        while pending:
            var, ready = pending.pop()
            if var in copied or var in done:
                continue
            step = self.program.step_of[var]
            if ready:
                done[var] = step
            else:
                pending.append((var, True))
                pending += [(other, False) for other in reversed(step.inputs) if other in dropped]
        return list(done.values())


def _waiting(task: Task, moment: Var | None) -> Task:
    """The task with the smallest of its tensors late, unless it reads a copy, which is late.

    Of one that writes into a tensor, it is that: XLA has room for it from when it can be had. What
    divides a copy is late as well: XLA would spread its reciprocals over the first value and the
    copy at once, as for the weights of a softmax, and keep those.
    """
    tensors = [value for value in task.inputs if isinstance(value[0].ty, TensorType)]
    writes = task.step.is_written and not task.waits and not task.inputs[0][1]
    if task.is_late and not writes:
        divides = task.again and task.step.is_quotient
        tensors = [value for value in tensors[1:] if divides and not value[1]]
    if moment is None or not tensors:
        return task
    value = tensors[0] if writes else min(tensors, key=lambda value: size_of(value[0]))
    return replace(task, waits=(Wait(value, moment),))
