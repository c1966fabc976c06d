"""Finding a call with effects where none may be."""

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function, If, SeqExpr
from relaxjax.ir.infer import is_pure_call


def impure_call(function: Function) -> Call | None:
    """The first impure call of a function. Its closures answer for themselves."""
    return _impure_in(function.body)


def _impure_in(seq: SeqExpr) -> Call | None:
    for binding in seq.bindings():
        value = binding.value
        if isinstance(value, Call) and not is_pure_call(value):
            return value
        if isinstance(value, If):
            found = _impure_in(value.true_branch) or _impure_in(value.false_branch)
            if found is not None:
                return found
    return None
