"""Products of `lax.dot_general` as those of matrices.

Axes that are summed or kept together become one. Then the adjoints are products of two matrices,
too: those of JAX sum over several axes, for which XLA on a CPU rearranges both tensors.
"""

import math

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op
from relaxjax.ops.shapes import element_count

from .reading import (
    Reading,
    asks_for_precision,
    dims_of,
    ndim_of,
    of_one_float,
    raises,
    static_dims,
)
from .writing import in_order, of_shape


@raises("lax.dot_general")
def product(call: Call, reading: Reading) -> Expr | None:
    """The last axes of a tensor times the first or last ones of another.

    A matrix may come first, as equinox has its weights: the result has its axis first then.
    """
    if not of_one_float(call) or asks_for_precision(call):
        return None
    (left, right), batch = call.attrs["dimension_numbers"]
    x, w = call.args
    if batch != ((), ()) or not 0 < len(left) < ndim_of(x) or ndim_of(w) < 2:
        return None
    dims = dims_of(call)
    if ndim_of(x) == 2 < ndim_of(w) and right == (ndim_of(w) - 1,):
        turned = _times(w, right, x, left)
        order = [ndim_of(call) - 1, *range(ndim_of(call) - 1)]
        return None if turned is None else in_order(turned, order)
    found = _times(x, left, w, right)
    return None if found is None or dims is None else of_shape(found, dims)


def _times(x: Expr, left: tuple[int, ...], w: Expr, right: tuple[int, ...]) -> Expr | None:
    """The product over pairs of axes, which are the last of `x`, as one of matrices."""
    pairs = sorted(zip(left, right, strict=True))
    summed, count = tuple(axis for _, axis in pairs), len(pairs)
    if [axis for axis, _ in pairs] != list(range(ndim_of(x) - count, ndim_of(x))):
        return None
    if count == 1 and ndim_of(w) == 2:
        return get_op("relax.matmul")(x, in_order(w, (0, 1) if summed == (0,) else (1, 0)))
    sizes, others = static_dims(x), static_dims(w)
    if sizes is None or others is None or not _are_at_an_end(summed, ndim_of(w)):
        return None
    length = math.prod(sizes[axis] for axis in range(ndim_of(x) - count, ndim_of(x)))
    first = summed[0] == 0
    kept = others[count:] if first else others[:-count]
    if not kept:
        return None
    flat: list[Dim] = [length, element_count(kept)] if first else [element_count(kept), length]
    matrix = in_order(of_shape(w, flat), (0, 1) if first else (1, 0))
    rows = of_shape(x, [*sizes[: ndim_of(x) - count], length])
    return get_op("relax.matmul")(rows, matrix)


def _are_at_an_end(axes: tuple[int, ...], ndim: int) -> bool:
    first, last = range(len(axes)), range(ndim - len(axes), ndim)
    return axes in (tuple(first), tuple(last))
