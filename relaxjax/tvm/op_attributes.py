"""What TVM has for operators under a name: `Op.get("relax.add").get_attr("FPrimalGradient")`."""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.op import (
    TVM_ATTRIBUTES,
    ZERO_GRADIENT,
    ByResult,
    Op,
    Partial,
    arguments,
    fields_of,
    get_op,
)
from relaxjax.passes.differentiation.adjoint import fitted, partials_of

PrimalGradient = Callable[[Var, Call, Expr, Any], list[Expr]]


def primal_gradient(op: Op) -> PrimalGradient | None:
    """The gradient rule of an operator as TVM calls it; None for an operator without one.

    It takes the variable that a call is bound to, the call, the adjoint of its result, and a
    builder, and gives an adjoint for each argument: `R.grad.no_grad(argument)` where there is none.
    """
    rule = op.gradient
    if rule is None:
        return None

    def adjoints(orig_var: Var, orig_call: Call, output_grad: Expr, ctx: Any = None) -> list[Expr]:
        args, attrs = arguments(orig_call)
        if rule is ZERO_GRADIENT:
            given: Any = (None,) * len(args)
        elif isinstance(rule, ByResult):
            given = rule.rule(fields_of(output_grad), orig_var, *args, **attrs)
        else:
            assert callable(rule)
            given = rule(output_grad, orig_var, *args, **attrs)
        pairs = zip(args, partials_of(op, given, len(args)), strict=True)
        return [_adjoint(orig_call, arg, partial) for arg, partial in pairs if arg is not None]

    return adjoints


def _adjoint(call: Call, arg: Expr, partial: Partial) -> Expr:
    found = partial() if callable(partial) and not isinstance(partial, Expr) else partial
    if found is not None:
        return fitted(call, found, arg)
    no_grad = get_op("relax.grad.no_grad")
    return Tuple(tuple(map(no_grad, arg.fields))) if isinstance(arg, Tuple) else no_grad(arg)


TVM_ATTRIBUTES.update(FPrimalGradient=primal_gradient, FPurity=lambda op: op.pure)
