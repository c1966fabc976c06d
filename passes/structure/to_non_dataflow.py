"""Dataflow blocks as ordinary ones."""

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.expr import DataflowVar, Expr, Var
from relaxjax.ir.function import BindingBlock, DataflowBlock, Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import with_vars
from relaxjax.ir.walk import all_vars, rewrite
from relaxjax.passes.base import pass_factory


@pass_factory(opt_level=0, kind="function")
def ToNonDataflow(function: Function, mod: IRModule) -> Function:
    """Turn dataflow blocks into ordinary blocks, and their variables into ordinary ones.

    Before:

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                y = R.add(x, x)
                z = R.exp(y)
                R.output(z)
            return z

    After `ToNonDataflow()`:

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.add(x, x)
            z = R.exp(y)
            return z
    """
    return without_dataflow(function)


def without_dataflow(function: Function) -> Function:
    """`function` without dataflow blocks, in branches and closures too."""
    visible = {
        var: Var(var.name, var.ty, span=var.span)
        for var in all_vars(function)
        if isinstance(var, DataflowVar)
    }
    plain = rewrite(with_vars(function, visible), _plain_blocks)
    assert isinstance(plain, Function)
    return plain


def _plain_blocks(expr: Expr) -> Expr:
    if not isinstance(expr, SeqExpr):
        return expr
    if not any(isinstance(block, DataflowBlock) for block in expr.blocks):
        return expr
    plain = tuple(BindingBlock(block.bindings, span=block.span) for block in expr.blocks)
    return replace(expr, blocks=tidy_blocks(plain))
