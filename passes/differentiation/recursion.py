"""Functions that call themselves: what goes back through one computes it again, at each depth.

What such a function would save for going back is of no type that could be said, for it holds what
the calls inside save.
"""

from collections.abc import Callable, Sequence

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.renew import renew
from relaxjax.ir.types import FuncType, ObjectType, TupleType
from relaxjax.ir.walk import bound_vars

from .inlining import inline_closures
from .parts import Halves


def pullback_type(function: Function, places: Sequence[int]) -> FuncType:
    """The type of a function from parameters and the adjoint of the result to gradients."""
    params = [param.ty or ObjectType() for param in function.params]
    gradients = TupleType(tuple(params[place] for place in places))
    return FuncType((*params, function.ret_ty), gradients, function.pure)


def pullback_of(
    function: Function,
    places: Sequence[int],
    part: Callable[[SeqExpr, Sequence[Var]], Halves],
) -> Function:
    """A function of the parameters and the result's adjoint: both halves, one after the other."""
    whole, _ = renew(inline_closures(function), visible=True)
    halves = part(whole.body, [whole.params[place] for place in places])
    builder = BlockBuilder()
    taken = [var.name for half in (halves.forward, halves.backward) for var in bound_vars(half)]
    with builder.scope(taken=taken):
        for half in (halves.forward, halves.backward):
            for binding in half.bindings():
                builder.emit_binding(binding)
        body = builder.sequence(halves.backward.body)
    params = (*whole.params, halves.cotangent)
    attrs = function.attrs.without("global_symbol")
    pulled = make_function(params, body, pure=function.pure, attrs=attrs, span=function.span)
    return renew(pulled)[0]
