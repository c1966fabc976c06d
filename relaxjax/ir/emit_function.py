"""What a function or a sequence computes, as bindings of another that is being built."""

from collections.abc import Sequence

from .builder import BlockBuilder
from .expr import Expr, Var
from .function import Function, SeqExpr
from .renew import renew
from .walk import substitute


def emit_sequence(builder: BlockBuilder, seq: SeqExpr) -> Expr:
    """Emit the bindings of a sequence as they stand; its result."""
    for binding in seq.bindings():
        builder.emit_binding(binding)
    return seq.body


def emit_function(
    builder: BlockBuilder, function: Function, args: Sequence[Var | Sequence[Expr]]
) -> Expr:
    """Emit the body of a function for these arguments, tuples as their fields too; its result."""
    renewed, _ = renew(function)
    given = [
        arg if isinstance(arg, Var) else builder.emit(arg, param.name)
        for arg, param in zip(args, renewed.params, strict=True)
    ]
    known = dict(zip(renewed.params, given, strict=True))
    return builder.normalize(substitute(renewed.body, known))
