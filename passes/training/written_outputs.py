"""Writing out the tuple that a backbone returns by one variable, as exported models do."""

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Tuple, TupleGetItem, Var
from relaxjax.ir.function import BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import all_vars


def with_written_outputs(function: Function) -> Function:
    """`function` with a tuple instead of a variable that holds one, its fields bound last."""
    result = function.body.body
    if not (isinstance(result, Var) and isinstance(result.ty, TupleType)):
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
