"""The two halves that a sequence is parted into when it is differentiated."""

from collections.abc import Mapping
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import SeqExpr
from relaxjax.ir.walk import bound_vars, substitute


@dataclass(frozen=True)
class Halves:
    """One sequence in two: `forward` ends in `(result, saved)`, `backward` in the adjoints.

    `backward` is in terms of `cotangent`, the adjoint of the result, and of the `saved` variables.
    """

    forward: SeqExpr
    backward: SeqExpr
    cotangent: Var
    saved: tuple[Var, ...]


def in_terms_of(seq: SeqExpr, mapping: Mapping[Var, Expr]) -> SeqExpr:
    """A sequence with variables replaced, brought back into normal form."""
    changed = substitute(seq, mapping)
    assert isinstance(changed, SeqExpr)
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in bound_vars(changed)]):
        for binding in changed.bindings():
            builder.emit_binding(binding)
        return builder.sequence(changed.body)
