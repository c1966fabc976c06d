"""Re-emitting a function with some of its calls spelt out."""

from collections.abc import Callable
from contextlib import nullcontext

from .builder import BlockBuilder
from .expr import Call, Expr
from .function import Binding, DataflowBlock, Function, If, SeqExpr
from .node import replace
from .walk import all_vars

Expansion = Callable[[Call], Expr | None]


def expand_calls(function: Function, expansion: Expansion) -> Function:
    """`function` with each call replaced by what `expansion` gives for it, kept where that is None.

    What is nested in the replacement is bound to variables of its own, in the place of the call;
    the call's variable stays. Branches and closures are walked too. Where no call is replaced the
    result is the very function.
    """
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in all_vars(function)]):
        return replace(function, body=_sequence(function.body, expansion, builder))


def _sequence(seq: SeqExpr, expansion: Expansion, builder: BlockBuilder) -> SeqExpr:
    changed = False
    with builder.scope():
        for block in seq.blocks:
            dataflow = isinstance(block, DataflowBlock)
            with builder.dataflow(block.span) if dataflow else nullcontext():
                for binding in block.bindings:
                    expanded = _binding(binding, expansion, builder)
                    changed |= expanded is not binding
                    with builder.origin(binding.span):
                        builder.emit_binding(expanded)
        result = builder.sequence(seq.body)
    return replace(result, span=seq.span) if changed else seq


def _binding(binding: Binding, expansion: Expansion, builder: BlockBuilder) -> Binding:
    value = binding.value
    match value:
        case Call():
            expanded = expansion(value)
            return binding if expanded is None else replace(binding, value=expanded)
        case If():
            true = _sequence(value.true_branch, expansion, builder)
            false = _sequence(value.false_branch, expansion, builder)
            return replace(binding, value=replace(value, true_branch=true, false_branch=false))
        case Function():
            body = _sequence(value.body, expansion, builder)
            return replace(binding, value=replace(value, body=body))
        case _:
            return binding
