"""Finding a call with effects where none may be."""

from collections.abc import Iterator

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function, If, SeqExpr
from relaxjax.ir.infer import is_pure_call


def impure_call(function: Function) -> Call | None:
    """The first impure call of a function. Its closures answer for themselves."""
    return next(_impure_in(function.body), None)


def _impure_in(seq: SeqExpr) -> Iterator[Call]:
    for binding in seq.bindings():
        value = binding.value
        if isinstance(value, Call) and not is_pure_call(value):
            yield value
        if isinstance(value, If):
            yield from _impure_in(value.true_branch)
            yield from _impure_in(value.false_branch)
