"""Functions whose purity nobody checks."""

from collections.abc import Iterator

from relaxjax.ir.attrs import DESTINATION_PASSING
from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.expr import Call, Expr, ExternFunc
from relaxjax.ir.function import DataflowBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import FuncType
from relaxjax.ir.walk import nested_bindings, rewrite
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0, kind="function")
def RemovePurityChecking(function: Function, mod: IRModule) -> Function:
    """Mark pure functions with `relax.force_pure`, and call packed functions without a promise.

    From there on `R.call_pure_packed` is `R.call_packed`, and the function may say it is pure all
    the same. A dataflow block with such a call becomes an ordinary one.
    """
    filling = {id(call.op) for call in _packed_calls(function) if not _may_promise(call)}

    def unchecked(expr: Expr) -> Expr:
        match expr:
            case Function(pure=True) if not expr.attrs.get("relax.force_pure"):
                return expr.with_attr("relax.force_pure", True)
            case ExternFunc(ty=FuncType(pure=True) as ty) if id(expr) not in filling:
                return replace(expr, ty=replace(ty, pure=False))
            case _:
                return expr

    return rewrite(without_dataflow(function, _may_have_effects), unchecked)


def _packed_calls(function: Function) -> Iterator[Call]:
    for binding in nested_bindings(function):
        if isinstance(binding.value, Call) and isinstance(binding.value.op, ExternFunc):
            yield binding.value


def _may_promise(call: Call) -> bool:
    """Whether a packed function may be said to be pure or not; one that fills arrays is."""
    return DESTINATION_PASSING not in call.attrs


def _may_have_effects(block: DataflowBlock) -> bool:
    values = (binding.value for binding in block.bindings)
    return any(
        isinstance(value, Call) and isinstance(value.op, ExternFunc) and _may_promise(value)
        for value in values
    )
