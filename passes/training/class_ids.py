"""Which parameters of a function are ids of classes, so that a trainer can look at their values."""

from typing import Any

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import post_order
from relaxjax.ops.nn.loss import class_axis

CLASS_IDS = "class_ids"


def class_ids(function: Function) -> list[list[Any]]:
    """What is known of each parameter that picks classes out of scores.

    That is its name, the number of classes, the ignored id, and whether a mean is taken over those
    that are not ignored. Those are in it whose classes can be counted before a call.
    """
    found: dict[tuple[str, int, int], bool] = {}
    for expr in post_order(function):
        if not isinstance(expr, Call) or not isinstance(expr.op, Op):
            continue
        ids = named_by_fact(expr, expr.op, "class_ids")
        if ids not in function.params:
            continue
        scores = expr.args[0].ty
        if not isinstance(scores, TensorType) or not scores.dims:
            continue
        count = scores.dims[class_axis(scores)]
        if isinstance(count, int):
            one = ids.name, count, int(expr.attrs["ignore_index"])
            found[one] = found.get(one, False) or expr.attrs["reduction"] == "mean"
    return [[*one, has_mean] for one, has_mean in found.items()]


def named_by_fact(expr: Call, op: Op, fact: str) -> Any:
    """The argument that a fact of a call's operator names; None where it has no such fact."""
    name = op.facts.get(fact)
    names = [param.name for param in op.params if param.is_arg]
    return None if name is None else arguments(expr)[0][names.index(name)]
