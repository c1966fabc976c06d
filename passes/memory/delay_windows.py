"""Windows that the gradient of a kernel reads: put side by side when it is due."""

from collections.abc import Mapping

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.uses import Uses
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory

from .planning.turned_data import turned_by

# What shows the numbers of tensors in other places, and zeros beside them.
_VIEWS = frozenset({"lax.concatenate", "lax.pad", "lax.reshape", "lax.slice"})


@pass_factory(opt_level=0, kind="function")
def DelayWindows(function: Function, mod: IRModule) -> Function:
    """Put the windows that the gradient of a kernel reads side by side when it is due.

    A convolution of volumes reads the planes of each window side by side, several times what they
    are views of, and the gradient of its kernel reads them in another order. XLA's compiler for
    CPUs would make both at once, and keep the second until the backward part. What they are views
    of is kept instead, and they are made of it anew once the gradient of the result is there. The
    function is to be legalised, and for other platforms it stays as it is.
    """
    if chosen_platform() != "cpu":
        return function
    known = Uses.of(function)
    place = {binding.var: at for at, binding in enumerate(function.body.bindings())}

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        turned = turned_by(binding)
        if turned is None:
            return None
        call, data, gradient = turned
        views = _windows(data, known)
        whole = _whole(views)
        if whole is None or place.get(gradient, -1) <= place.get(whole, -1):
            return None
        late = {whole: builder.emit(get_op("relax.grad.delay")(whole, gradient), _late(whole))}
        for view, value in views.items():
            args = [late.get(arg, arg) if isinstance(arg, Var) else arg for arg in value.args]
            late[view] = builder.emit(Call(value.op, args, value.attrs), _late(view))
        return Call(call.op, [late[data], gradient], call.attrs)

    return expand_bindings(function, rule)


def _windows(data: Var, known: Uses) -> dict[Var, Call]:
    """The views that data is made of, one after the other, if several lie side by side in it."""
    views: dict[Var, Call] = {}

    def visit(var: Var) -> None:
        value = known.call(var)
        if value is None or operator_name(value) not in _VIEWS or var in views:
            return
        for arg in value.args:
            if isinstance(arg, Var):
                visit(arg)
        views[var] = value

    visit(data)
    are_beside = any(operator_name(value) == "lax.concatenate" for value in views.values())
    return views if are_beside else {}


def _whole(views: Mapping[Var, Call]) -> Var | None:
    """The tensor of which all of these are views, if it is one."""
    read = {arg for value in views.values() for arg in value.args if isinstance(arg, Var)}
    wholes = read.difference(views)
    return wholes.pop() if len(wholes) == 1 else None


def _late(var: Var) -> str:
    return f"{var.name}_late"
