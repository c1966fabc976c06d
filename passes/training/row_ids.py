"""Which parameters of a function are ids of rows, so that a trainer can look at their values."""

from typing import Any

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import post_order
from relaxjax.ops.shapes import at_most, element_count, normalize_axis

from .class_ids import named_by_fact

ROW_IDS = "row_ids"


def row_ids(function: Function) -> list[list[Any]]:
    """Name and number of rows of each parameter that picks rows, such as those of an embedding.

    Those are in it that must be ids of rows, and whose rows can be counted before a call.
    """
    known = Uses.of(function)
    found: dict[tuple[str, int], None] = {}
    for expr in post_order(function):
        if not isinstance(expr, Call) or not isinstance(expr.op, Op):
            continue
        ids = _before_moves(named_by_fact(expr, expr.op, "row_ids"), known)
        if ids not in function.params or expr.attrs["mode"] != "fast":
            continue
        table = expr.args[0].ty
        if not isinstance(table, TensorType) or not table.dims:
            continue
        count = table.dims[normalize_axis(expr.attrs["axis"] or 0, table.ndim)]
        if isinstance(count, int):
            found[ids.name, count] = None
    return [list(one) for one in found]


def _before_moves(ids: Any, known: Uses) -> Any:
    """What ids were before all of them were moved about or brought to another integer dtype."""
    call = known.call(ids) if isinstance(ids, Expr) else None
    while call is not None and _has_all(call):
        ids = call.args[0]
        call = known.call(ids)
    return ids if _are_integers(ids) else None


def _has_all(call: Call) -> bool:
    """Whether the result holds every id of the first argument, and nothing else."""
    assert isinstance(call.op, Op)
    if call.op.name == "relax.astype":
        return True
    source = call.args[0].ty if call.op.facts.get("moves") else None
    if not isinstance(source, TensorType) or not isinstance(call.ty, TensorType):
        return False
    if source.dims is None or call.ty.dims is None:
        return False
    return at_most(element_count(source.dims), element_count(call.ty.dims))


def _are_integers(ids: Any) -> bool:
    ty = ids.ty if isinstance(ids, Expr) else None
    return isinstance(ty, TensorType) and (ty.dtype or "").startswith(("int", "uint"))
