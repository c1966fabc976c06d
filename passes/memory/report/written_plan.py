"""A memory plan, read back from the program that it was written into."""

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import cached_property
from typing import NamedTuple

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, Function, VarBinding
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.walk import map_bindings, substitute, used_vars
from relaxjax.passes.differentiation.gradient import function_of

from ..loops.host_stacks import is_fetched, is_sent
from ..offload import without_offload
from ..planning.budget import MEMORY_BUDGET
from ..planning.decisions import Decided
from ..planning.plan import Plan, Run
from ..planning.planner import Planner
from ..program.caller import Caller, with_open_caller
from ..program.program import Program, check_sizes
from ..program.schedule import Task, Wait, task_of


class WrittenPlan(NamedTuple):
    """A plan, and the module whose function keeps everything instead."""

    mod: IRModule
    decided: Decided


@dataclass(frozen=True)
class _Read(Plan):
    """A plan whose tasks are known, whatever follows from what it keeps."""

    known: tuple[Task, ...] = ()

    @cached_property
    def run(self) -> Run:
        return self.run_of(list(self.known))

    @cached_property
    def extra(self) -> int:
        return sum(task.step.flops for task in self.known if task.again)


def read_plan(mod: IRModule, name: str, caller: Caller | None = None) -> WrittenPlan:
    """The plan that an adjoint follows: what it computes a second time, and what waits for what.

    It is that of Rematerialize, which writes it so, and of the checkpoints that the loss asks for.
    What is on the host for a while is so in the plan alone.
    """
    function = function_of(mod, name)
    check_sizes(function, name)
    if caller is not None:
        mod = with_open_caller(mod, name, caller)
    reader = _Reader(function)
    plain = reader.plain
    if plain is not function:
        mod = mod.with_function(name, plain)
    program = Program.of(plain, mod, name, caller)
    tasks = tuple(reader.tasks(program))
    again = {task.step.var for task in tasks if task.again}
    kept = frozenset(step.var for step in program.forward) - again
    plan = _Read(program, kept, known=tasks)
    whole = without_offload(mod, name)
    if whole is not mod:
        program = Program.of(function_of(whole, name), whole, name, caller)
    return WrittenPlan(whole, Decided(Planner(program), plan, function.attrs.get(MEMORY_BUDGET)))


class _Reader:
    """Finds what a function computes again, or has late, and what it is without that."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.results = frozenset(used_vars(function.body.body))
        delays = filter(_is_delay, function.body.bindings())
        self.stays = self.results.union(*(used_vars(delay.value)[:1] for delay in delays))
        # What each variable is called without the plan: what is late as what it waits to be, and
        # what is computed again as what it was at first.
        self.same: dict[Var, Var] = {}
        self.copies: set[Var] = set()
        self.sent: dict[Expr, Expr] = {}  # what each value on the host was sent from
        self.fetched: dict[Var, Expr] = {}  # and each that came back
        self.moments: dict[Var, Var] = {}  # of what is late
        self.first: dict[Expr, Var] = {}  # the variables of values
        self.read: list[tuple[Binding, Var]] = []  # in order, and what each computes
        self.plain = replace(function, body=map_bindings(function.body, self.binding))

    def binding(self, binding: Binding) -> Binding | None:
        """A binding without the plan; None for one that is there for the plan alone."""
        var, value = binding.var, binding.value
        if self._is_planned(binding):
            assert isinstance(value, Call)
            late, moment = value.args
            assert isinstance(late, Var)
            assert isinstance(moment, Var)
            self.same[var] = self.same.get(late, late)
            self.moments[var] = self.same.get(moment, moment)
            if late in self.copies:
                self.copies.add(var)
            return None
        plain = substitute(value, self.same)
        here = substitute(plain, self.fetched)
        self._note_host(var, plain)
        original = self.first.get(here) if here is not value else None
        if original is not None and var not in self.results and original.ty == var.ty:
            self.same[var] = original
            self.copies.add(var)
            self.read.append((binding, original))
            return None
        self.read.append((binding, var))
        if isinstance(binding, VarBinding) and not (
            isinstance(plain, Call) and not is_pure_call(plain)
        ):
            self.first.setdefault(here, var)
        return replace(binding, value=plain)

    def _note_host(self, var: Var, value: Expr) -> None:
        """Tell what a variable is that is sent to the host, or comes from there."""
        if isinstance(value, Call) and is_sent(value):
            self.sent[var] = value.args[0]
        elif isinstance(value, Call) and is_fetched(value) and value.args[0] in self.sent:
            self.fetched[var] = self.sent[value.args[0]]

    def _is_planned(self, binding: Binding) -> bool:
        """Whether it delays something for those who read it, and that alone.

        What is given late, or delayed once more, is so without the plan.
        """
        return _is_delay(binding) and binding.var not in self.stays

    def tasks(self, program: Program) -> Iterator[Task]:
        """What the function does, as tasks of a program of the plain one."""
        for binding, var in self.read:
            step = program.step_of[var]
            again = binding.var in self.copies
            plain = {self.same.get(used, used): used for used in used_vars(binding.value)}
            # A copy may read what came back from the host, where the first read what was sent.
            back = {self.fetched[v]: v for v in plain if again and v in self.fetched}
            names = {v: plain[back.get(v, v)] for v in step.inputs}
            copied = [v for v in step.inputs if names[v] in self.copies]
            task = task_of(step, copied, again)
            inputs = tuple((back.get(v, v), copy) for v, copy in task.inputs)
            late = {(v, copy): self.moments.get(plain[v]) for v, copy in inputs}
            waits = (Wait(value, moment) for value, moment in late.items() if moment is not None)
            yield replaced(task, inputs=inputs, waits=(*task.waits, *waits))
        for step in program.steps[len(program.steps) - len(program.foreign) :]:
            yield task_of(step)


def _is_delay(binding: Binding) -> bool:
    call = binding.value
    return isinstance(call, Call) and call.op is get_op("relax.grad.delay")
