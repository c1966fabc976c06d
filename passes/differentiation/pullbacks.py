"""The way back through a call by a function that gives the gradients, in the place of its body.

So it is for functions that have rules, and for those that call themselves. The pullback of one that
does so computes it again at each depth: its residuals would have no type that could be written, for
they hold those of the calls inside.
"""

from collections.abc import Sequence
from operator import is_

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew
from relaxjax.ir.types import FuncType, ObjectType, TupleType, Type
from relaxjax.ir.walk import bound_vars

from .adjoint import Adjoint, Reverse, zeros
from .inlining import inline_closures
from .vjp import VjpOf


def by_pullback(
    builder: BlockBuilder,
    binding: Binding,
    call: Call,
    pullback: GlobalVar,
    indices: Sequence[int],
    able: Sequence[int],
    residuals: GlobalVar | None = None,
) -> Reverse:
    """The call as it is; the reverse calls a function that gives the gradients at `able`.

    What a function `residuals` gives of the arguments, it takes beside them.
    """
    builder.emit_binding(binding)
    name = f"{binding.var.name}_ready"
    saved = () if residuals is None else (builder.emit(Call(residuals, call.args), name),)
    return _pulled(binding, call, pullback, saved, indices, able)


def by_halves(
    builder: BlockBuilder,
    binding: Binding,
    call: Call,
    forward: GlobalVar,
    pullback: GlobalVar,
    indices: Sequence[int],
    able: Sequence[int],
) -> Reverse:
    """Another function in the place of the call, which gives what the pullback takes, too."""
    both = emit_kept(builder, binding, call, forward)
    saved = builder.emit(TupleGetItem(both, 1), f"{binding.var.name}_saved")
    return _pulled(binding, call, pullback, (saved,), indices, able)


def emit_kept(builder: BlockBuilder, binding: Binding, call: Call, forward: GlobalVar) -> Var:
    """Call a forward program in a function's place: the result, and what the pullback takes."""
    both = builder.emit(Call(forward, call.args), f"{binding.var.name}_kept")
    builder.emit_binding(replace(binding, value=TupleGetItem(both, 0)))
    return both


def _pulled(
    binding: Binding,
    call: Call,
    pullback: GlobalVar,
    saved: Sequence[Var],
    indices: Sequence[int],
    able: Sequence[int],
) -> Reverse:
    """Call a function that gives the gradients at `able`, of the arguments and what is saved."""

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        back = Call(pullback, (*map(adjoint.at_a_turn, call.args), *saved, cotangent))
        result = adjoint.builder.emit(back, f"{binding.var.name}_inputs_adjoint")
        for index in indices:
            arg = call.args[index]
            partial = _of_floats(TupleGetItem(result, able.index(index)), arg.ty)
            adjoint.add(arg, partial)

    return reverse


def _of_floats(adjoint: Expr, ty: Type | None) -> Expr:
    """An adjoint with zeros for its integers, whatever a rule of one's own gives for them."""
    if not isinstance(ty, TupleType):
        return adjoint if carries_gradient(ty) else zeros(ty)
    fields = list(adjoint)
    parts = list(map(_of_floats, fields, ty.fields))
    return adjoint if all(map(is_, parts, fields)) else Tuple(tuple(parts))


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
