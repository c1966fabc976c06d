"""Checkpoint marks: which forward values the backward keeps, and which it computes again."""

from collections.abc import Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.registry import get_op
from relaxjax.ir.walk import substitute, used_vars


def without_marks(bindings: Sequence[Binding]) -> tuple[tuple[Binding, ...], set[Var]]:
    """The bindings without their checkpoint marks, and the variables between marks.

    What depends on a value through its `start_checkpoint` is computed again for the backward
    program, up to `end_checkpoint`; everything else is kept, the started values themselves too.
    """
    start, end = get_op("relax.grad.start_checkpoint"), get_op("relax.grad.end_checkpoint")
    aliases: dict[Var, Expr] = {}
    started: set[Var] = set()
    between: set[Var] = set()
    kept: list[Binding] = []
    for binding in bindings:
        value = binding.value
        if isinstance(value, Call) and value.op in (start, end):
            marked = substitute(value.args[0], aliases)
            aliases[binding.var] = marked
            if value.op is start:
                started.add(binding.var)
                between -= {marked}
            continue
        ended = {var for var in aliases if var not in started}
        if any(var in started or var in between for var in set(used_vars(value)) - ended):
            between.add(binding.var)
        kept.append(replace(binding, value=substitute(value, aliases)))
    return tuple(kept), between


class Recomputation:
    """Computes forward values between checkpoints again, each once, where the backward asks."""

    def __init__(self, builder: BlockBuilder, bindings: Sequence[Binding], between: set[Var]):
        self.builder = builder
        self.values = {b.var: b for b in bindings if b.var in between}
        self.copies: dict[Var, Var] = {}

    def __call__(self, expr: Expr) -> Expr:
        """`expr` in terms of kept values and copies."""
        needed = [var for var in used_vars(expr) if var in self.values]
        return substitute(expr, {var: self.copy(var) for var in needed})

    def copy(self, var: Var) -> Var:
        if var not in self.copies:
            binding = self.values[var]
            value = self(binding.value)
            copy = type(var)(self.builder.get_unique_name(f"{var.name}_cp"), var.ty)
            self.copies[var] = self.builder.emit_binding(VarBinding(copy, value, span=binding.span))
        return self.copies[var]
