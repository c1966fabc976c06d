"""Products of rows with a stack of matrices, as mixtures of experts have them, by each matrix."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_ndim, static_dims

from .reading import Reading, asks_for_precision, of_one_float, raises
from .writing import in_order, of_shape


class _Side(NamedTuple):
    """One of the two tensors of a product, its axes that are summed, that both have, its own."""

    expr: Expr
    summed: list[int]
    batch: list[int]
    own: list[int]

    def sizes(self, axes: Iterable[int]) -> list[int]:
        return [(static_dims(self.expr.ty) or ())[axis] for axis in axes]


@raises("lax.dot_general")
def stacked_product(call: Call, reading: Reading) -> Expr | None:
    """Rows times each of a stack of weights: `jnp.einsum` has the stack first, or sums its middle.

    XLA on a CPU rearranges the whole stack then, forward and backward. Where the matrices have the
    rows in common, these are repeated instead, unless they are more than a matrix has columns.
    """
    sides = _sides(call)
    computed = [_is_computed(side.expr, reading) for side in sides]
    if sum(computed) != 1 or len(sides[0].summed) != 1:
        return None
    x, w = sides if computed[0] else sides[::-1]
    if static_dims(x.expr.ty) is None or static_dims(w.expr.ty) is None:
        return None
    (summed,), last = w.summed, known_ndim(w.expr) - 1
    stack = list(w.batch) or list(range(summed))
    columns = [axis for axis in w.own if axis not in stack]
    is_turned = summed == last
    if w.batch:
        is_rearranged = computed[1] and summed in (len(stack), last)
    else:
        is_rearranged = math.prod(x.sizes(x.own)) <= math.prod(w.sizes(columns))
    if not is_rearranged or not stack or not columns or stack != list(range(len(stack))):
        return None
    count, length, width = (math.prod(w.sizes(axes)) for axes in (stack, [summed], columns))
    rows = in_order(x.expr, [*x.batch, *x.own, *x.summed])
    rows = of_shape(rows, [*([count] if w.batch else []), math.prod(x.sizes(x.own)), length])
    matrices = of_shape(w.expr, [count, *((width, length) if is_turned else (length, width))])
    matrices = in_order(matrices, [0, 2, 1] if is_turned else [0, 1, 2])
    product = get_op("relax.matmul")(rows, matrices)
    found = of_shape(product, [*w.sizes(stack), *x.sizes(x.own), *w.sizes(columns)])
    # The axes as they lie, and as the call has them.
    have = [*((w, a) for a in stack), *((x, a) for a in x.own), *((w, a) for a in columns)]
    wanted = [*((w, a) for a in w.batch), *((side, a) for side in sides for a in side.own)]
    return in_order(found, [have.index(axis) for axis in wanted])


def _is_computed(x: Expr, reading: Reading) -> bool:
    """Whether it is computed from others, not a parameter, nor one in another dtype."""
    while (cast := reading.call(x, "convert_element_type")) is not None:
        x = cast.args[0]
    return reading.known.call(x) is not None


def _sides(call: Call) -> list[_Side]:
    """Both tensors of a product of one kind of floats, none where it asks for a precision."""
    if not of_one_float(call) or asks_for_precision(call):
        return []
    found = []
    for x, summed, batch in zip(call.args, *call.attrs["dimension_numbers"], strict=True):
        own = [axis for axis in range(known_ndim(x)) if axis not in (*summed, *batch)]
        found.append(_Side(x, list(summed), list(batch), own))
    return found
