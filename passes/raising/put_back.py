"""Elementwise operators between two orders of axes, computed in the first one."""

from collections.abc import Sequence

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_ndim, static_dims
from relaxjax.passes.simplification.tensors import is_elementwise_of_jax

from .reading import Reading, order_of, raises
from .writing import in_order


@raises("relax.permute_dims")
def put_back(call: Call, reading: Reading) -> Expr | None:
    """What is put into an order of axes, computed from elementwise, and put back, is not moved.

    Products with a stack of matrices have the stack first. What lies between two of them would be
    computed in another order, and moved before and behind.
    """
    order = order_of(call)
    if order is None or reading.known.call(call.args[0], "relax.permute_dims") is not None:
        return None
    return _put_back(call.args[0], tuple(order.index(axis) for axis in range(len(order))), reading)


def _put_back(x: Expr, axes: Sequence[int], reading: Reading) -> Expr | None:
    """`x` with its axes in another order, from what was put into that of `x` by a permutation."""
    call = reading.known.call(x)
    if call is None or not isinstance(call.op, Op):
        return None
    if call.op is get_op("relax.permute_dims"):
        order = order_of(call)
        return call.args[0] if order is not None and tuple(order) == tuple(axes) else None
    if call.op is get_op("lax.broadcast_in_dim"):
        return _spread(call, axes)
    is_elementwise = is_elementwise_of_jax(call) or call.op.facts.get("elementwise")
    if not is_elementwise or not reading.known.used_once(x):
        return None
    args = [_laid(arg, x, axes, reading) for arg in call.args]
    known = [arg for arg in args if arg is not None]
    return call.op(*known, **call.attrs) if len(known) == len(args) else None


def _laid(arg: Expr, x: Expr, axes: Sequence[int], reading: Reading) -> Expr | None:
    """An argument of what `x` is computed by, for its axes in another order."""
    if known_ndim(arg) != len(axes):
        return arg if known_ndim(arg) == 0 else None
    if static_dims(arg.ty) != static_dims(x.ty):
        return in_order(arg, axes)  # it is repeated, so it is small
    return _put_back(arg, axes, reading)


def _spread(call: Call, axes: Sequence[int]) -> Expr | None:
    """What is repeated along new axes, in another order: what it repeats is put into that."""
    shape, places = call.attrs["shape"], call.attrs["broadcast_dimensions"]
    if len(call.args) != 1:
        return None
    moved = [axes.index(place) for place in places]
    order = sorted(range(len(moved)), key=moved.__getitem__)
    wide = [shape[axis] for axis in axes]
    repeated = in_order(call.args[0], order)
    return get_op("lax.broadcast_in_dim")(repeated, shape=wide, broadcast_dimensions=sorted(moved))
