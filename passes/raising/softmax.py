"""Softmax and its logarithm, as `jax.nn` and many by hand write them.

What is taken off before the powers, so that they stay small, may be anything that is the same along
the axis: it changes neither the values nor their derivatives. Here it must be the largest element,
because that is what the operators of `relax` take off, with the same infinities.
"""

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op

from .reading import Reading, Reduced, View, of_one_float, order_of, raises


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
    if args is None:
        return None
    data, taken = args
    largest = reading.largest(taken)
    if largest is None or largest.data is not data.expr:
        largest = _largest_in_turn(data.expr, taken, reading)
    return largest if largest is not None and len(largest.axes) == 1 else None


def _largest_in_turn(data: Expr, taken: View, reading: Reading) -> Reduced | None:
    """The same where the maximum is of the data with its axes in another order, as by `vmap`."""
    turned = reading.call(data, "transpose", "relax.permute_dims")
    places = None if turned is None else order_of(turned)
    if turned is None or places is None:
        return None
    axes = (None if axis is None else places.index(axis) for axis in taken.axes)
    largest = reading.largest(View(taken.expr, tuple(axes)))
    if largest is None or largest.data is not turned.args[0]:
        return None
    return Reduced(data, tuple(sorted(places[axis] for axis in largest.axes)))
