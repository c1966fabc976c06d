"""The two halves that a sequence is parted into when it is differentiated, and its one block."""

from collections.abc import Mapping
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function, If, SeqExpr
from relaxjax.ir.infer import is_pure_call
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


def is_flat(function: Function) -> bool:
    """Whether the whole body may stand in one dataflow block."""
    return not any(
        isinstance(value, If | Function) or (isinstance(value, Call) and not is_pure_call(value))
        for value in (binding.value for binding in function.body.bindings())
    )
