"""What of a schedule XLA computes at all."""

from collections.abc import Iterable
from dataclasses import replace

from relaxjax.ir.expr import Tuple, TupleGetItem, Var
from relaxjax.ir.walk import used_vars

from ..program.program import Program
from ..program.schedule import Task, Value


def needed(program: Program, tasks: Iterable[Task]) -> list[Task]:
    """The tasks whose values something needs: XLA drops the others."""
    single = _single_parts(tasks)
    wanted: set[Value] = {(var, False) for var in program.results}
    found = []
    for task in reversed(single):
        if task.value in wanted or not task.step.pure:
            found.append(task)
            wanted.update(task.inputs)
            if task.waits:
                wanted.update((wait.moment, False) for wait in task.waits)
    return found[::-1]


def _single_parts(tasks: Iterable[Task]) -> list[Task]:
    """The tasks, those that take a part of a tuple with that for their input, if it is written."""
    tuples: dict[Value, tuple[Tuple, dict[Var, bool]]] = {}
    found = []
    for task in tasks:
        value = task.step.binding.value
        if isinstance(value, Tuple):
            tuples[task.value] = value, dict(task.inputs)
        elif isinstance(value, TupleGetItem) and task.inputs and task.inputs[0] in tuples:
            written, again = tuples[task.inputs[0]]
            part = dict.fromkeys(used_vars(written.fields[value.index]))
            task = replace(task, inputs=tuple((var, again[var]) for var in part if var in again))
        found.append(task)
    return found
