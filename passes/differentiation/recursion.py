"""Functions that call themselves: the pullback of one computes it again, at each depth.

The residuals of such a function have no type that could be written, for they hold those of the
calls inside.
"""

from collections.abc import Sequence

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.function import Function
from relaxjax.ir.renew import renew
from relaxjax.ir.types import FuncType, ObjectType, TupleType
from relaxjax.ir.walk import bound_vars

from .inlining import inline_closures
from .vjp import VjpOf


def pullback_type(function: Function, indices: Sequence[int]) -> FuncType:
    """The type of a function from parameters and the cotangent of the result to gradients."""
    params = [param.ty or ObjectType() for param in function.params]
    gradients = TupleType(tuple(params[index] for index in indices))
    return FuncType((*params, function.ret_ty), gradients, function.pure)


def pullback_of(function: Function, indices: Sequence[int], vjp_of: VjpOf) -> Function:
    """A function of the parameters and the cotangent: forward and backward in one."""
    whole, _ = renew(inline_closures(function), visible=True)
    vjp = vjp_of(whole.body, [whole.params[index] for index in indices])
    builder = BlockBuilder()
    taken = [var.name for seq in (vjp.forward, vjp.backward) for var in bound_vars(seq)]
    with builder.scope(taken=taken):
        for seq in (vjp.forward, vjp.backward):
            emit_sequence(builder, seq)
        body = builder.sequence(vjp.backward.body)
    params = (*whole.params, vjp.cotangent)
    attrs = function.attrs.without("global_symbol")
    pulled = make_function(params, body, pure=function.pure, attrs=attrs, span=function.span)
    return renew(pulled)[0]
