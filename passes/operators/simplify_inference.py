"""Operators as they behave in inference, under Relay's name for it."""

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings


@pass_factory(opt_level=0, kind="function")
def SimplifyInference(function: Function, mod: IRModule) -> Function:
    """Spell normalizations out in simpler operators, as they behave in inference; drop dropout.

    What an operator becomes is the rule `inference` of its declaration, else `decompose`.
    """
    simplified = expand_calls(function, _in_inference)
    return function if simplified is function else canonical_bindings(simplified)


def _in_inference(call: Call) -> Expr | None:
    rule = (call.op.inference or call.op.decompose) if isinstance(call.op, Op) else None
    if rule is None:
        return None
    args, attrs = arguments(call)
    return rule(*args, **attrs)
