"""A model that ends in what its loss does, too: a softmax before a cross entropy of scores."""

import warnings
from collections.abc import Iterator

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import operator_name

# By what a model ends in, what a loss of scores applies to them, and what does not do it again.
_AGAIN = {
    "relax.nn.softmax": ("relax.nn.log_softmax", "write R.nn.log_softmax there and take NLLLoss"),
    "relax.sigmoid": ("relax.nn.softplus", "take BCELoss"),
}

# By file, what Python has warned of there, so that it says the same once.
_WARNED: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}


def warn_of_normalizing_twice(backbone: Function, output: Expr, loss: Function) -> None:
    """Warn where probabilities go into a loss that takes scores: it learns, but little."""
    ending = next((b for b in backbone.body.bindings() if b.var is output), None)
    name = operator_name(ending.value) if ending is not None else None
    if ending is None or name not in _AGAIN or not loss.params:
        return
    again, instead = _AGAIN[name]
    if again not in _applied(loss):
        return
    short = name.rpartition(".")[2]
    message = (
        f"the model ends in a {short}, `{ending.var.name}`, and the loss `{loss.global_symbol}` "
        f"takes scores, of which it computes the {short} itself: leave that of the model out, or "
        f"{instead}"
    )
    span = ending.value.span or ending.span
    if span is None:
        warnings.warn(message, stacklevel=2)
    else:
        warned = _WARNED.setdefault(span.file, {})
        warnings.warn_explicit(message, UserWarning, span.file, span.line, registry=warned)


def _applied(loss: Function) -> Iterator[str]:
    """The operators that a loss applies to its first argument, or to that turned in sign."""
    same: set[Var] = {loss.params[0]}
    for binding in loss.body.bindings():
        name = operator_name(binding.value)
        if name is None or not isinstance(binding.value, Call) or binding.value.args[0] not in same:
            continue
        if name == "relax.negative":
            same.add(binding.var)
        yield name
