"""Softmax and its logarithm, as `jax.nn` and many by hand write them.

What is taken off before the powers, so that they stay small, may be anything that is the same along
the axis: it changes neither the values nor their derivatives. Here it must be the largest element,
because that is what the operators of `relax` take off, with the same infinities.
"""

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op

from .reading import Reading, Reduced, View, of_one_float, raises


@raises("lax.div")
def softmax(call: Call, reading: Reading) -> Expr | None:
    """exp(x - max(x)) / sum(exp(x - max(x)))."""
    if not of_one_float(call):
        return None
    powers, total = reading.elementwise(call, View.whole(call).axes)
    power = reading.call(powers.expr, "exp")
    shifted = None if power is None else shifted_by_largest(power.args[0], reading)
    summed = reading.total(total)
    if shifted is None or summed != Reduced(powers.expr, shifted.axes):
        return None
    return get_op("relax.nn.softmax")(shifted.data, shifted.axes[0])


@raises("lax.sub")
def log_softmax(call: Call, reading: Reading) -> Expr | None:
    """x - max(x) - log(sum(exp(x - max(x))))."""
    if not of_one_float(call):
        return None
    x, taken = reading.elementwise(call, View.whole(call).axes)
    logarithm = reading.args(taken, "log")
    shifted = shifted_by_largest(x.expr, reading)
    if shifted is None or logarithm is None:
        return None
    summed = reading.reduced(logarithm[0], "sum")
    power = None if summed is None else reading.call(summed.data, "exp")
    if summed is None or power is None or power.args[0] is not x.expr:
        return None
    if summed.axes != shifted.axes:
        return None
    return get_op("relax.nn.log_softmax")(shifted.data, shifted.axes[0])


def shifted_by_largest(expr: Expr, reading: Reading) -> Reduced | None:
    """What `expr` is without its largest element along one axis."""
    args = reading.operands(expr, "sub")
    largest = None if args is None else reading.largest(args[1])
    if args is None or largest is None or largest.data is not args[0].expr:
        return None
    return largest if len(largest.axes) == 1 else None
