"""The vector-Jacobian product of a sequence: a forward program and a backward one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Function, If, SeqExpr
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.walk import bound_vars, substitute


@dataclass(frozen=True)
class Vjp:
    """A sequence in two: `forward` ends in `(result, residuals)`, `backward` in the adjoints.

    `backward` is in terms of `cotangent`, the adjoint of the result, and of the residuals.
    """

    forward: SeqExpr
    backward: SeqExpr
    cotangent: Var
    residuals: tuple[Var, ...]

    @property
    def result(self) -> Expr:
        """What the sequence gives, without the residuals."""
        assert isinstance(self.forward.body, Tuple)
        return self.forward.body.fields[0]


# Differentiates a sequence by some of the variables that it uses.
VjpOf: TypeAlias = Callable[[SeqExpr, Sequence[Var]], Vjp]
# The programs, given the fields of the result that something comes back to; by None it is to all.
VjpByFields: TypeAlias = Callable[[frozenset[int] | None], Vjp]


def in_terms_of(seq: SeqExpr, mapping: Mapping[Var, Expr]) -> SeqExpr:
    """A sequence with variables replaced, brought back into normal form."""
    changed = substitute(seq, mapping)
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in bound_vars(changed)]):
        return builder.sequence(emit_sequence(builder, changed))


def is_flat(function: Function) -> bool:
    """Whether the whole body may stand in one dataflow block."""
    return not any(
        isinstance(value, If | Function) or (isinstance(value, Call) and not is_pure_call(value))
        for value in (binding.value for binding in function.body.bindings())
    )
