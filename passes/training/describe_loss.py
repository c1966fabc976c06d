"""What a trainer is to know of the arguments of a model and its loss: which of them are ids."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.types import TensorType, is_integer
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import post_order
from relaxjax.ops.nn.loss import class_axis
from relaxjax.ops.shapes import at_most, element_count, normalize_axis
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.kinds import Pass
from relaxjax.passes.infrastructure.named_params import check_params
from relaxjax.trainable.arguments import required_function
from relaxjax.trainable.facts import TAKEN, ClassIds, Facts, RowIds
from relaxjax.trainable.names import BACKBONE_LOSS

_TARGET = f"parameter of `{BACKBONE_LOSS}`"
_WEIGHTS = "weights"  # what the argument of a loss is called that weighs its mean


@pass_factory(opt_level=0)
def DescribeLoss(
    mod: IRModule,
    compares_classes: bool = False,
    is_mean: bool = False,
    weights: str | None = None,
    takes: str | None = None,
) -> IRModule:
    """State which arguments of `backbone_loss` are ids, and what its loss says of itself.

    They become attributes of the module, which a Trainer reads to refuse wrong data:

    * `class_ids` is for targets that are class ids. It lists the name of each, its number of
      classes, its id to ignore, and whether the loss is a mean over the others. Such a mean needs
      at least one.
    * `row_ids` is for inputs that pick rows by `R.take`: their names, and the numbers of rows.
    * `compares_classes` says that the targets are of classes. A Trainer then measures accuracy by
      default. With `is_mean`, a batch must hold a target that is not ignored.
    * `loss_weights` is the name of the target that weighs the mean of the loss, as the argument
      `weights` of a loss does.
    * `loss_takes` says what the loss expects of the model, such as probabilities.
    """
    function = required_function(mod, BACKBONE_LOSS)
    if weights is not None:
        check_params(
            "weights", [weights], mod, lambda f: f.params if f is function else (), _TARGET
        )
    if takes not in (None, *TAKEN):
        raise ValueError(f"a loss takes {' or '.join(map(repr, TAKEN))}, but `takes` is {takes!r}")
    ids = class_ids(function)
    if compares_classes and is_mean:
        ids = tuple(replace(one, has_mean=True) for one in ids)
    facts = Facts(ids, row_ids(function), compares_classes, weights, takes)
    return mod.with_attrs(facts.attrs())


def described(loss: Any, function: Function, loss_args: Sequence[Any]) -> Pass:
    """The pass by what a loss says of itself; `function` is the loss for its arguments."""
    return DescribeLoss(
        compares_classes=bool(getattr(loss, "compares_classes", False)),
        is_mean=getattr(loss, "reduction", None) == "mean",
        weights=_weights(loss, function, loss_args),
        takes=getattr(loss, "takes", None),
    )


def _weights(loss: Any, function: Function, loss_args: Sequence[Any]) -> str | None:
    """The name of the argument that weighs the mean of the loss."""
    build = getattr(type(loss), "build", None)
    if build is None or getattr(loss, "reduction", None) != "mean":
        return None
    names = list(signature(build).parameters)[2:]  # behind itself and the builder
    if _WEIGHTS not in names[: len(loss_args)]:
        return None
    return function.params[names.index(_WEIGHTS) - len(loss_args)].name


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
