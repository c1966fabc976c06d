"""Writing out the tuple that a backbone returns by one variable, as exported models do."""

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Tuple, TupleGetItem, Var
from relaxjax.ir.function import BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import TupleType, Type
from relaxjax.ir.walk import all_vars


def outputs_written(mod: IRModule, name: str, first: Type | Var | None) -> IRModule:
    """`mod` with the tuple that a function of it returns written out, where there is such a one."""
    if name not in mod or not isinstance(mod[name], Function):
        return mod  # for others to say
    return mod.with_function(name, with_written_outputs(mod[name], first))


def with_written_outputs(function: Function, first: Type | Var | None) -> Function:
    """`function` with a tuple in the place of a variable that holds one, its fields bound last.

    `first` is what a loss takes first, or its type: where that is a tuple, the variable is meant.
    """
    result = function.body.body
    taken = first.ty if isinstance(first, Var) else first
    if not (isinstance(result, Var) and isinstance(result.ty, TupleType)):
        return function
    if isinstance(taken, TupleType):
        return function
    names = Names([var.name for var in all_vars(function)])
    fields = tuple(Var(names.unique(result.name), ty, span=result.span) for ty in result.ty.fields)
    bindings = tuple(
        VarBinding(field, TupleGetItem(result, index), span=result.span)
        for index, field in enumerate(fields)
    )
    *blocks, last = function.body.blocks or (BindingBlock(()),)
    blocks.append(replace(last, bindings=(*last.bindings, *bindings)))
    return replace(function, body=SeqExpr(tuple(blocks), Tuple(fields), span=function.body.span))
