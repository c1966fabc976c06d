"""Gradients that come no sooner than what else reads their parameter.

An update that could run before would need a copy of the parameter, for those that read it later.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from relaxjax.ir.expr import Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import hide_unused_outputs
from relaxjax.ir.tensor_types import has_floats

from .program import Program
from .step import Step, size_of

# By how much smaller than the largest value a parameter is that may well be copied.
_SMALLER = 1024
# An update waits for few reads, and for one more for so many bytes: each makes its kernel longer. A
# scale is read by all that comes after its layer, which takes longer to compile than a copy takes.
_FEW, _BYTES_A_READ = 4, 16 * 1024


def with_reads_first(
    mod: IRModule, name: str, differentiated: Sequence[int], like: Program | None = None
) -> IRModule:
    """The module whose adjoint `name` gives each gradient after the last read of its parameter.

    `differentiated` are the positions of the parameters that its gradients are of. What a program
    `like` it knows of bindings is not found out again.
    """
    function: Function = mod[name]
    body = function.body.body
    assert isinstance(body, Tuple)
    order = _Order(Program.of(function, mod, name, like=like))
    gradients = body.fields[-1]
    assert isinstance(gradients, Tuple)
    late = [
        order.late(gradient, [function.params[at]])
        for at, gradient in zip(differentiated, gradients.fields, strict=True)
    ]
    if not order.bindings:
        return mod
    *blocks, last = function.body.blocks
    blocks.append(replace(last, bindings=(*last.bindings, *order.bindings)))
    result = replace(body, fields=(*body.fields[:-1], Tuple(tuple(late))))
    changed = replace(function, body=replace(function.body, blocks=tuple(blocks), body=result))
    return mod.with_function(name, hide_unused_outputs(changed))


class _Order:
    """What depends on what in an adjoint, and the bindings that let gradients wait."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.bindings: list[Binding] = []
        largest = max((step.size for step in program.backward), default=0)
        self.least = largest // _SMALLER
        # The steps that each value depends on, its own too, as the bits of a number.
        self.behind: dict[Var, int] = {}
        for place, step in enumerate(program.steps):
            behind = 1 << place
            for var in step.inputs:
                behind |= self.behind.get(var, 0)
            self.behind[step.var] = behind
        self.bit = {step.var: 1 << place for place, step in enumerate(program.steps)}

    def late(self, gradient: Expr, names: Sequence[Var]) -> Expr:
        """A gradient, or a tuple of them, after the reads of its parameter, known by `names`."""
        step = self.program.step_of.get(gradient) if isinstance(gradient, Var) else None
        if step is not None and isinstance(step.binding.value, Tuple):
            gradient = step.binding.value
        if isinstance(gradient, Tuple):
            parts = [(field, self._part(names, i)) for i, field in enumerate(gradient.fields)]
            return Tuple(tuple(self.late(field, part) for field, part in parts))
        if not isinstance(gradient, Var) or gradient not in self.bit:
            return gradient
        if size_of(gradient) < self.least:
            return gradient
        name = f"{gradient.name}_late"
        for read in self._missed(gradient, names):
            call = get_op("relax.grad.delay")(gradient, read)
            gradient = Var(name, gradient.ty)
            self.bindings.append(VarBinding(gradient, call))
        return gradient

    def _missed(self, gradient: Var, names: Sequence[Var]) -> Sequence[Var]:
        """The reads that a gradient does not come after, if they are few: each is waited for."""
        missed, behind = list[Var](), self.behind[gradient]
        most = max(_FEW, size_of(gradient) // _BYTES_A_READ)
        for read in self._reads(names):
            if not (behind & self.bit[read] or self._follows(read, gradient)):
                missed.append(read)
                behind |= self.behind[read]
                if len(missed) > most:
                    return ()
        return missed

    def _follows(self, read: Var, gradient: Var) -> bool:
        return bool(self.behind[read] & self.bit[gradient])

    def _part(self, names: Sequence[Var], index: int) -> list[Var]:
        """The names of a field of a tuple that is known by `names`."""
        users = chain.from_iterable(self.program.users.get(var, ()) for var in names)
        values = ((step.var, step.binding.value) for step in users)
        return [v for v, get in values if isinstance(get, TupleGetItem) and get.index == index]

    def _reads(self, names: Sequence[Var]) -> Iterator[Var]:
        """What is computed of a parameter, once it is no more than a view or a part of a kernel."""
        pending, seen = list(names), set[Var]()
        while pending:
            for step in self.program.users.get(pending.pop(), ()):
                if step.var in seen:
                    continue
                seen.add(step.var)
                if _is_inside(step):
                    pending.append(step.var)
                elif has_floats(step.var.ty):
                    yield step.var


def _is_inside(step: Step) -> bool:
    """Whether XLA reads what a step takes where its value is read."""
    return step.is_view or step.pointwise
