"""What a function computes of its parameters before all else."""

from collections.abc import Callable, Mapping

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Tuple, Var
from relaxjax.ir.function import DataflowBlock, Function, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.walk import all_vars, substitute


def with_prologue(
    function: Function, body: SeqExpr, emit: Callable[[BlockBuilder], Mapping[Var, Expr]]
) -> SeqExpr:
    """The body of a function after what `emit` adds, with what that gives for variables of it."""
    builder = BlockBuilder()
    dataflow = isinstance(body.blocks[0], DataflowBlock)
    with builder.scope(taken=[v.name for v in (*function.params, *all_vars(function))]):
        with builder.dataflow() if dataflow else builder.scope():
            values = emit(builder)
            inner = None if dataflow else builder.sequence(Tuple())
        parts = tuple((inner or builder.sequence(Tuple())).bindings())
    changed = substitute(body, dict(values))
    first, *rest = changed.blocks
    return replace(changed, blocks=(replace(first, bindings=(*parts, *first.bindings)), *rest))
