"""Which parameters of a function are ids, of classes or of rows."""

from typing import Any

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.types import TensorType, is_integer
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import post_order
from relaxjax.ops.nn.loss import class_axis
from relaxjax.ops.shapes import at_most, element_count, normalize_axis
from relaxjax.trainable.facts import ClassIds, RowIds


def class_ids(function: Function) -> tuple[ClassIds, ...]:
    """The parameters that pick classes out of scores, if those can be counted before a call."""
    found: dict[tuple[str, int, int], bool] = {}
    for expr in post_order(function):
        if not isinstance(expr, Call) or not isinstance(expr.op, Op):
            continue
        ids = _named_by_fact(expr, expr.op, "class_ids")
        if ids not in function.params:
            continue
        scores = expr.args[0].ty
        if not isinstance(scores, TensorType) or not scores.dims:
            continue
        count = scores.dims[class_axis(scores)]
        if isinstance(count, int):
            one = ids.name, count, int(expr.attrs["ignore_index"])
            found[one] = found.get(one, False) or expr.attrs["reduction"] == "mean"
    return tuple(ClassIds(*one, has_mean) for one, has_mean in found.items())


def row_ids(function: Function) -> tuple[RowIds, ...]:
    """The parameters that pick rows, such as those of an embedding.

    Those are in it that must be ids of rows, and whose rows can be counted before a call.
    """
    known = Uses.of(function)
    found: dict[RowIds, None] = {}
    for expr in post_order(function):
        if not isinstance(expr, Call) or not isinstance(expr.op, Op):
            continue
        ids = _before_moves(_named_by_fact(expr, expr.op, "row_ids"), known)
        if ids not in function.params or expr.attrs["mode"] != "fast":
            continue
        table = expr.args[0].ty
        if not isinstance(table, TensorType) or not table.dims:
            continue
        count = table.dims[normalize_axis(expr.attrs["axis"] or 0, table.ndim)]
        if isinstance(count, int):
            found[RowIds(ids.name, count)] = None
    return tuple(found)


def _named_by_fact(expr: Call, op: Op, fact: str) -> Any:
    """The argument that a fact of a call's operator names; None where it has no such fact."""
    name = op.facts.get(fact)
    names = [param.name for param in op.params if param.is_arg]
    return None if name is None else arguments(expr)[0][names.index(name)]


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
    return isinstance(ty, TensorType) and is_integer(ty.dtype)
