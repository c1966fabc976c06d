"""Shapes that a tensor has already, or that it soon loses again."""

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.uses import Uses
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten
from relaxjax.passes.simplification.tensors import same_type


@pass_factory(opt_level=0, kind="function")
def RemoveRedundantReshape(function: Function, mod: IRModule) -> Function:
    """Reshape a tensor once instead of several times, and not at all to the shape that it has."""
    return rewritten(function, LAWS)


@law("relax.reshape")
def reshaped_once(call: Call, op: Op, known: Uses) -> Expr | None:
    """The last of several shapes counts, and only where the tensor has another."""
    if same_type(call.args[0], call):
        return call.args[0]
    inner = known.call(call.args[0], "relax.reshape")
    return None if inner is None else op(inner.args[0], call.args[1])


LAWS = Laws([reshaped_once])
