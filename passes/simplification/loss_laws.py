"""Laws on losses: log_softmax and nll_loss together, whose logarithms need not be written out.

Between them the samples may be reshaped, as a language model's are, whose scores are of texts.
"""

from relaxjax.ir.expr import Call, Expr, ShapeExpr
from relaxjax.ir.laws import law
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import same_dims


@law("relax.nn.nll_loss")
def loss_of_logits(call: Call, op: Op, known: Uses) -> Expr | None:
    """nll_loss(log_softmax(x)) is softmax_nll_loss(x)."""
    logits = logits_of_predictions(call.args[0], known)
    return None if logits is None else _from(logits, "relax.nn.softmax_nll_loss", call)


@law("relax.subtract")
def adjoint_of_logits(call: Call, op: Op, known: Uses) -> Expr | None:
    """d - sum(d) * exp(y), of d = nll_loss_backward(g, y) and y = log_softmax(x), in one."""
    spread, product = call.args
    moved = known.call(spread, "relax.reshape")
    backward = known.call(
        spread if moved is None else moved.args[0], "relax.grad.nll_loss_backward"
    )
    scaled = known.call(product, "relax.multiply")
    if backward is None or scaled is None:
        return None
    total, power = (
        known.call(factor, name)
        for factor, name in zip(scaled.args, ("relax.sum", "relax.exp"), strict=True)
    )
    if total is None or power is None or total.args[0] is not spread:
        return None
    softmax = known.call(power.args[0], "relax.nn.log_softmax")
    if softmax is None or not _is_along(total, softmax) or not total.attrs["keepdims"]:
        return None
    logits = _logits_of(softmax, None if moved is None else moved.args[0].ty)
    if logits is None:
        return None
    g, _, *rest = backward.args
    adjoint = get_op("relax.grad.softmax_nll_loss_backward")(g, logits, *rest, **backward.attrs)
    return adjoint if moved is None else get_op("relax.reshape")(adjoint, moved.args[1])


def _from(logits: Expr, name: str, call: Call) -> Expr:
    return get_op(name)(logits, *call.args[1:], **call.attrs)


def logits_of_predictions(predictions: Expr, known: Uses) -> Expr | None:
    """What predictions are the log_softmax of, over the axis of the classes."""
    moved = known.call(predictions, "relax.reshape")
    softmax = known.call(predictions if moved is None else moved.args[0], "relax.nn.log_softmax")
    if softmax is None:
        return None
    return _logits_of(softmax, None if moved is None else moved.ty)


def _logits_of(softmax: Call, shaped: Type | None) -> Expr | None:
    """What is given to a log_softmax over the classes, in the shape that its result is put into."""
    made = softmax.ty
    if not isinstance(made, TensorType) or made.ndim < 1:
        return None
    along = softmax.attrs["axis"] % made.ndim
    if shaped is None:
        return softmax.args[0] if along == min(made.ndim - 1, 1) else None
    if not isinstance(shaped, TensorType) or not made.dims or not shaped.dims:
        return None
    keeps_classes = same_dims(made.dims[-1:], shaped.dims[-1:])
    if along != made.ndim - 1 or shaped.ndim > 2 or not keeps_classes:
        return None
    return get_op("relax.reshape")(softmax.args[0], ShapeExpr(shaped.dims))


def _is_along(total: Call, softmax: Call) -> bool:
    """Whether a sum goes over the axis of a log_softmax."""
    axes, ndim = total.attrs["axis"], getattr(softmax.ty, "ndim", -1)
    if axes is None or ndim < 1:
        return False
    return [axis % ndim for axis in axes] == [softmax.attrs["axis"] % ndim]
