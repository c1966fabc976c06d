"""Writing a plan into its program: what is computed again, and what keeps it from being early."""

from collections.abc import Iterable

from relaxjax.ir.expr import DataflowVar, Expr, Var
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import hide_unused_outputs
from relaxjax.ir.walk import substitute

from ..program.program import Program
from ..program.schedule import Task, Wait
from .plan import Plan


def rematerialized(mod: IRModule, name: str, plan: Plan) -> IRModule:
    """The module with a function that follows a plan."""
    function = plan.program.function
    if plan.changes:
        function = recomputed(plan.program, plan.tasks)
    return mod if function is mod[name] else mod.with_function(name, function)


def recomputed(program: Program, tasks: Iterable[Task]) -> Function:
    """The function of a program that runs these tasks."""
    writer = _Writer(program.function)
    for task in tasks:
        if task.step.var not in program.foreign:
            writer.write(task)
    return writer.written()


class _Writer:
    """Writes the bindings of a program, under the names that its values have by then."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.kind = kind_of(function)
        self.bindings: list[Binding] = []
        self.copies: dict[Var, Expr] = {}
        self.late: dict[Wait, Var] = {}

    def write(self, task: Task) -> None:
        binding, names = task.step.binding, {}
        for var, again in task.inputs:
            if again:
                names[var] = self.copies[var]
        for wait in task.added:
            names[wait.value[0]] = self.delayed(wait, binding)
        value = substitute(binding.value, names)
        if task.again:
            copy = self.new(f"{binding.var.name}_again", binding.var)
            self.copies[binding.var] = copy
            binding = replace(binding, var=copy)
        self.bindings.append(replace(binding, value=value))

    def delayed(self, wait: Wait, binding: Binding) -> Var:
        """A value under a name for those who must not have it before its moment."""
        if wait not in self.late:
            var, again = wait.value
            late = self.new(f"{var.name}_late", var)
            call = get_op("relax.grad.delay")(self.copies[var] if again else var, wait.moment)
            self.bindings.append(VarBinding(late, call, span=binding.span))
            self.late[wait] = late
        return self.late[wait]

    def written(self) -> Function:
        body = self.function.body
        blocks = (self.kind(tuple(self.bindings)),)
        return hide_unused_outputs(replace(self.function, body=replace(body, blocks=blocks)))

    def new(self, name: str, like: Var) -> Var:
        return (DataflowVar if self.kind is DataflowBlock else Var)(name, like.ty)


def kind_of(function: Function) -> type[BindingBlock]:
    """The kind of block that all bindings of a function can stand in."""
    if all(isinstance(block, DataflowBlock) for block in function.body.blocks):
        return DataflowBlock
    return BindingBlock
