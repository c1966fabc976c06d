"""Calls that give a part of a factorization, whose derivatives take the other factors, too."""

from collections.abc import Callable

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.infer import infer
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import rewrite

from .adjoint import Adjoint, Reverse


def with_factors(call: Expr) -> Call | None:
    """The call that gives more factors behind the results of this one; None where there is none."""
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return None
    asked = call.op.facts.get("factors")
    if asked is None or not isinstance(call.ty, TupleType):
        return None
    whole = infer(replace(call, attrs=call.attrs.updated(**asked), ty=None))
    assert isinstance(whole, Call)
    given, found = call.ty.fields, whole.ty.fields if isinstance(whole.ty, TupleType) else ()
    return whole if len(found) > len(given) and found[: len(given)] == given else None


def emit_factored(builder: BlockBuilder, binding: Binding, active: set[Var]) -> Reverse:
    """All factors in the place of some; the gradient rule need not compute them again."""
    call, known = binding.value, emit_whole(builder, binding)
    assert isinstance(call, Call)

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        adjoint.call(binding.var, call, cotangent, known)

    return reverse


def emit_whole(builder: BlockBuilder, binding: Binding) -> Callable[[Expr], Expr]:
    """Emit a binding as a part of all factors; what puts these in the place of their call."""
    whole, own = with_factors(binding.value), binding.var.ty
    assert whole is not None
    assert isinstance(own, TupleType)
    factors = builder.emit(whole, f"{binding.var.name}_factors")
    fields = tuple(TupleGetItem(factors, index) for index in range(len(own.fields)))
    builder.emit_binding(replace(binding, value=Tuple(fields)))

    def known(expr: Expr) -> Expr:
        return rewrite(expr, lambda part: factors if part == whole else part)

    return known
