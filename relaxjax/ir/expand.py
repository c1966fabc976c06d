"""Re-emitting a function with some of its calls spelt out."""

from collections.abc import Callable
from contextlib import nullcontext

from .builder import BlockBuilder
from .expr import Call, Expr
from .function import Binding, DataflowBlock, Function, If, SeqExpr
from .node import replace
from .span import located
from .walk import names_of_vars

Expansion = Callable[[Call], Expr | None]
Rule = Callable[[Binding, BlockBuilder], Expr | None]


def expand_calls(function: Function, expansion: Expansion) -> Function:
    """`function` with each call replaced by what `expansion` gives for it, kept where that is None.

    What is nested in the replacement is bound to variables of its own, in the place of the call;
    the call's variable stays. Branches and closures are walked too. Where no call is replaced the
    result is the very function.
    """

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        return expansion(binding.value) if isinstance(binding.value, Call) else None

    return expand_bindings(function, rule)


def expand_bindings(function: Function, rule: Rule) -> Function:
    """`function` with the value of each binding replaced by what `rule` gives for it, if anything.

    The rule may emit bindings of its own before that: it is handed the builder.
    """
    builder = BlockBuilder()
    with builder.scope(taken=names_of_vars(function)):
        return replace(function, body=_sequence(function.body, rule, builder))


def _sequence(seq: SeqExpr, rule: Rule, builder: BlockBuilder) -> SeqExpr:
    changed = False
    with builder.scope():
        for block in seq.blocks:
            dataflow = isinstance(block, DataflowBlock)
            with builder.dataflow(block.span) if dataflow else nullcontext():
                for binding in block.bindings:
                    origin = builder.origin(binding.span, binding.derived_from)
                    with located(binding.span), origin:
                        expanded = _binding(binding, rule, builder)
                        if expanded is binding:
                            builder.keep_binding(binding)
                        else:
                            changed = True
                            builder.emit_binding(expanded)
        result = builder.sequence(seq.body)
    return replace(result, span=seq.span) if changed else seq


def _binding(binding: Binding, rule: Rule, builder: BlockBuilder) -> Binding:
    match binding.value:
        case If() as choice:
            true = _sequence(choice.true_branch, rule, builder)
            false = _sequence(choice.false_branch, rule, builder)
            return replace(binding, value=replace(choice, true_branch=true, false_branch=false))
        case Function() as closure:
            body = _sequence(closure.body, rule, builder)
            return replace(binding, value=replace(closure, body=body))
        case _:
            expanded = rule(binding, builder)
            return binding if expanded is None else replace(binding, value=expanded)
