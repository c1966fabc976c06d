"""The cross entropy of classes, as optax and `jax.nn` have it, from scores and in closed form.

JAX picks by a `gather`, whose adjoint is a `scatter` into a tensor of the size of the scores, and
keeps their powers. Labels outside of the classes give NaN, as a gather does that fills up, or the
loss of the nearest class, as by one that is promised to meet none; scores are numbers or -inf.
"""

import math
from typing import Any

import numpy as np

from relaxjax.ir.expr import Call, Expr, const, np_dtype
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype, known_ndim, static_dims
from relaxjax.ops.emit import call as relax
from relaxjax.ops.emit import where
from relaxjax.ops.shapes import element_count

from .picking import bare, fills, picked_column
from .reading import Reading, View, of_one_float, raises
from .writing import of_shape


@raises("lax.sub")
def class_loss(call: Call, reading: Reading) -> Expr | None:
    """log(sum(exp(x))) - x[t], and the same with its sign changed."""
    if not of_one_float(call):
        return None
    x, y = reading.elementwise(call, View.whole(call).axes)
    if known_dims(x.expr) != known_dims(y.expr):
        return None
    for total, picked, sign in ((x, y, 1), (y, x, -1)):
        scores = log_total(total, reading)
        choice = reading.call(bare(picked.expr, reading), "gather")
        if scores is not None and choice is not None and choice.args[0] is scores:
            loss = _loss(scores, choice, call, reading)
            return loss if sign > 0 or loss is None else -loss
    return None


@raises("lax.gather")
def class_log_probability(call: Call, reading: Reading) -> Expr | None:
    """log_softmax(x)[t], where nothing else needs the others."""
    found = reading.known.call(call.args[0], "relax.nn.log_softmax")
    if found is None or not reading.known.used_once(call.args[0]):
        return None
    if found.attrs["axis"] % known_ndim(call.args[0]) != known_ndim(call.args[0]) - 1:
        return None
    loss = _loss(found.args[0], call, call, reading, picks_last=True)
    return None if loss is None else -loss


def log_total(view: View, reading: Reading) -> Expr | None:
    """The scores whose powers are added up over the last axis, and the logarithm taken."""
    for logarithm, top in _both_orders(reading.args(view, "add")):
        inner = reading.args(logarithm, "log")
        if inner is None:
            continue
        size = reading.args(inner[0], "abs")
        summed = reading.reduced(size[0] if size is not None else inner[0], "sum")
        power = None if summed is None else reading.call(summed.data, "exp")
        args = None if power is None else reading.operands(power.args[0], "sub")
        if summed is None or args is None or summed.axes != (known_ndim(summed.data) - 1,):
            continue
        largest = reading.largest(args[1])
        same = _agree(reading.peeled(args[1]), reading.peeled(top))
        if same and largest is not None and largest.data is args[0].expr:
            return largest.data if largest.axes == summed.axes else None
    return None


def _agree(one: View, other: View) -> bool:
    """Whether two views are of one tensor in one place, be it repeated or not."""
    if one.expr is not other.expr:
        return False
    pairs = zip(one.axes, other.axes, strict=True)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _both_orders(args: list[View] | None) -> list[list[View]]:
    return [] if args is None or len(args) != 2 else [args, args[::-1]]


def _loss(
    scores: Expr, choice: Call, like: Call, reading: Reading, picks_last: bool = False
) -> Expr | None:
    """The loss of scores for the classes that a gather picks, in the shape of `like`.

    Where it `picks_last`, out of the logarithms, nothing goes back from labels outside of them.
    """
    targets = picked_column(choice, reading)
    dims, shape, dtype = known_dims(scores), known_dims(like), known_dtype(scores)
    labels = None if targets is None else known_dtype(targets)
    if dims is None or shape is None or dtype is None or targets is None or labels is None:
        return None
    if np_dtype(labels).kind != "i":
        return None
    count = element_count(dims[:-1])
    flat, rows = of_shape(targets, [count]), of_shape(scores, [count, dims[-1]])
    classes = static_dims(scores.ty)
    if classes is None:
        return None
    never, first = int(np.iinfo(np_dtype(labels)).min), const(0, labels)
    behind = const(classes[-1], labels)
    inside = relax("logical_and", relax("greater_equal", flat, first), relax("less", flat, behind))
    if not fills(choice):
        least = where(relax("less", flat, first), const(never + 1, labels), flat)
        losses = _each(rows, least, never)  # of the nearest class, as a gather gives it
        if picks_last:
            losses = where(inside, losses, get_op("lax.stop_gradient")(losses))
        return of_shape(losses, shape)
    counted = where(inside, flat, const(never, labels)) if picks_last else flat
    nothing, undefined = const(0.0, dtype), const(math.nan, dtype)
    losses = _each(rows, counted, never) + where(inside, nothing, undefined)
    return of_shape(losses, shape)


def _each(rows: Expr, labels: Expr, never: int) -> Any:
    return relax("nn.softmax_nll_loss", rows, labels, None, "none", never)
