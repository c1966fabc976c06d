"""Writing a plan into its program: what is computed again, and what keeps it from being early."""

import sys
from collections.abc import Collection, Sequence

from relaxjax.ir.expr import DataflowVar, Expr, Var
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.registry import get_op
from relaxjax.ir.renew import hide_unused_outputs
from relaxjax.ir.types import TensorType, Type, is_float
from relaxjax.ir.walk import substitute
from relaxjax.ops.cost_rules import byte_count

from .program import Program
from .schedule import Task, schedule


def recomputed(program: Program, kept: Collection[Var]) -> Function:
    """The function that keeps only `kept` of its forward values for its backward part."""
    writer = _Writer(program)
    copies: list[Task] = []
    for task in schedule(program, kept):
        if task.again:
            copies.append(task)
            continue
        moment = writer.moment(task, copies)
        for copy in copies:
            writer.compute_again(copy, moment)
        writer.compute(task)
        copies.clear()
    return writer.function()


class _Writer:
    """Writes the bindings of a program, under the names that its values have by then."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kind = _kind_of(program.function)
        self.backward = frozenset(step.var for step in program.backward)
        self.depth, self.reach = _depths(program)
        self.bindings: list[Binding] = []
        self.copies: dict[Var, Expr] = {}
        self.late: dict[tuple[Var, Var], Var] = {}
        self.latest: Var | None = None  # of the backward part, what lies behind most steps

    def compute(self, task: Task) -> None:
        """A step in its own place."""
        binding = task.step.binding
        if binding.var in self.backward:
            binding = replace(binding, value=substitute(binding.value, self.copies))
            if _has_number(binding.var.ty) and self.depth[binding.var] >= self._deepest():
                self.latest = binding.var
        self.bindings.append(binding)

    def compute_again(self, task: Task, moment: Var | None) -> None:
        """A copy of a step. One that reads no other copy reads a value that is late."""
        binding = task.step.binding
        names = dict(self.copies)
        tensors = [var for var, _ in task.inputs if _can_be_late(var)]
        if tensors and moment is not None and not any(again for _, again in task.inputs):
            smallest = min(tensors, key=self._size)
            names[smallest] = self._delayed(smallest, moment, binding)
        copy = self._new(f"{binding.var.name}_again", binding.var)
        self.bindings.append(replace(binding, var=copy, value=substitute(binding.value, names)))
        self.copies[binding.var] = copy

    def moment(self, task: Task, copies: Sequence[Task]) -> Var | None:
        """What a step needs of the backward part before it, or else the deepest value there.

        It must lie behind more steps than any forward value that uses what is copied: that of what
        only transposes a parameter, say, tells nothing.
        """
        reach = max((self.reach[copy.step.var] for copy in copies), default=0)
        needed = [v for v, _ in task.inputs if v in self.backward and _has_number(v.ty)]
        known = [v for v in (self.latest, *needed) if v is not None and self.depth[v] > reach]
        return max(known, key=self.depth.__getitem__, default=None)

    def function(self) -> Function:
        body = self.program.function.body
        blocks = (self.kind(tuple(self.bindings)),)
        written = replace(self.program.function, body=replace(body, blocks=blocks))
        return hide_unused_outputs(written)

    def _deepest(self) -> int:
        return 0 if self.latest is None else self.depth[self.latest]

    def _delayed(self, var: Var, moment: Var, binding: Binding) -> Var:
        """The value of `var`, under a name for those who must not have it before `moment`."""
        if (var, moment) not in self.late:
            late = self._new(f"{var.name}_late", var)
            call = get_op("relax.grad.delay")(var, moment)
            self.bindings.append(VarBinding(late, call, span=binding.span))
            self.late[var, moment] = late
        return self.late[var, moment]

    def _size(self, var: Var) -> int:
        size = byte_count(var.ty)
        return size if isinstance(size, int) else sys.maxsize

    def _new(self, name: str, like: Var) -> Var:
        return (DataflowVar if self.kind is DataflowBlock else Var)(name, like.ty)


def _kind_of(function: Function) -> type[BindingBlock]:
    """The kind of block that all bindings of a function can stand in."""
    if all(isinstance(block, DataflowBlock) for block in function.body.blocks):
        return DataflowBlock
    return BindingBlock


def _depths(program: Program) -> tuple[dict[Var, int], dict[Var, int]]:
    """How many steps each value lies behind; and for forward values, those that use it there."""
    depth: dict[Var, int] = {}
    for step in program.steps:
        depth[step.var] = 1 + max((depth.get(var, 0) for var in step.inputs), default=0)
    reach = {step.var: depth[step.var] for step in program.forward}
    for step in program.forward:
        for var in step.inputs:
            if var in reach:
                reach[var] = max(reach[var], depth[step.var])
    return depth, reach


def _has_number(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) and is_float(ty.dtype) and 0 not in (ty.dims or (0,))


def _can_be_late(var: Var) -> bool:
    ty = var.ty
    return isinstance(ty, TensorType) and not (ty.dtype or "key<").startswith("key<")
