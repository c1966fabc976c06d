"""Special operators as basic ones."""

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=3, kind="function")
def CanonicalizeOps(function: Function, mod: IRModule) -> Function:
    """Write operators that are short for basic ones as those, so that passes meet fewer kinds.

    What an operator is short for is the rule `canonical` of its declaration.
    """
    return expand_calls(function, _canonical)


def _canonical(call: Call) -> Expr | None:
    if not isinstance(call.op, Op) or call.op.canonical is None:
        return None
    args, attrs = arguments(call)
    return call.op.canonical(*args, **attrs)
