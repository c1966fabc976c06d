"""Laws on losses: log_softmax and nll_loss together, whose logarithms need not be written out."""

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import Op
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType

from .definitions import Definitions


def loss_of_logits(call: Call, op: Op, known: Definitions) -> Expr | None:
    """nll_loss(log_softmax(x)) is softmax_nll_loss(x)."""
    if op.name != "relax.nn.nll_loss":
        return None
    logits = _logits(call.args[0], known)
    return None if logits is None else _from(logits, "relax.nn.softmax_nll_loss", call)


def adjoint_of_logits(call: Call, op: Op, known: Definitions) -> Expr | None:
    """d - sum(d) * exp(y), of d = nll_loss_backward(g, y) and y = log_softmax(x), in one."""
    if op.name != "relax.subtract":
        return None
    spread, product = call.args
    backward = known.call(spread, "relax.grad.nll_loss_backward")
    scaled = known.call(product, "relax.multiply")
    if backward is None or scaled is None:
        return None
    total, power = (
        known.call(factor, name)
        for factor, name in zip(scaled.args, ("relax.sum", "relax.exp"), strict=True)
    )
    if total is None or power is None or total.args[0] is not spread:
        return None
    logits = _logits(power.args[0], known)
    if logits is None or not total.attrs["keepdims"] or not _over_classes(total, logits):
        return None
    g, _, *rest = backward.args
    return get_op("relax.grad.softmax_nll_loss_backward")(g, logits, *rest, **backward.attrs)


def _from(logits: Expr, name: str, call: Call) -> Expr:
    return get_op(name)(logits, *call.args[1:], **call.attrs)


def _logits(predictions: Expr, known: Definitions) -> Expr | None:
    """What predictions are the log_softmax of, over the axis of the classes."""
    found = known.call(predictions, "relax.nn.log_softmax")
    if found is None or not isinstance(found.ty, TensorType) or found.ty.ndim < 1:
        return None
    along = found.attrs["axis"] % found.ty.ndim
    return found.args[0] if along == min(found.ty.ndim - 1, 1) else None


def _over_classes(total: Call, logits: Expr) -> bool:
    axes = total.attrs["axis"]
    ndim = logits.ty.ndim if isinstance(logits.ty, TensorType) else 0
    return axes is not None and [axis % ndim for axis in axes] == [min(ndim - 1, 1)]
