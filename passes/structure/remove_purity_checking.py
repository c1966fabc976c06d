"""Functions whose purity nobody checks."""

from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.expr import Call, Expr, ExternFunc
from relaxjax.ir.function import DataflowBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import FuncType
from relaxjax.ir.walk import rewrite
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0, kind="function")
def RemovePurityChecking(function: Function, mod: IRModule) -> Function:
    """Mark pure functions with `relax.force_pure`, and call packed functions without a promise.

    From there on `R.call_pure_packed` is `R.call_packed`, and the function may say it is pure all
    the same. A dataflow block with such a call becomes an ordinary one.
    """
    changed = rewrite(without_dataflow(function, _calls_packed), _unchecked)
    assert isinstance(changed, Function)
    return changed


def _calls_packed(block: DataflowBlock) -> bool:
    values = (binding.value for binding in block.bindings)
    return any(isinstance(value, Call) and isinstance(value.op, ExternFunc) for value in values)


def _unchecked(expr: Expr) -> Expr:
    match expr:
        case Function(pure=True) if not expr.attrs.get("relax.force_pure"):
            return expr.with_attr("relax.force_pure", True)
        case ExternFunc(ty=FuncType(pure=True) as ty):
            return replace(expr, ty=replace(ty, pure=False))
        case _:
            return expr
