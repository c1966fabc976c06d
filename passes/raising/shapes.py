"""What changes no number: axes in another order, and a difference to 0."""

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op

from .reading import Reading, View, raises


@raises("lax.transpose")
def transpose(call: Call, reading: Reading) -> Expr | None:
    """Axes in another order."""
    return get_op("relax.permute_dims")(call.args[0], axes=call.attrs["permutation"])


@raises("lax.sub")
def nothing_less(call: Call, reading: Reading) -> Expr | None:
    """x - 0, as flax's root-mean-square norm takes off a mean that is 0."""
    data, taken = reading.elementwise(call, View.whole(call).axes)
    same = data.expr.ty == call.ty
    return data.expr if same and reading.number(taken) == 0 else None
