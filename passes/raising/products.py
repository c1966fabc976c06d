"""Products of `lax.dot_general` as those of matrices.

Axes that are summed or kept together become one. Then the adjoints are products of two matrices,
too: those of JAX sum over several axes, for which XLA on a CPU rearranges both tensors.
"""

import math

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, known_ndim, static_dims
from relaxjax.ops.shapes import element_count

from .reading import Reading, asks_for_precision, of_one_float, raises
from .writing import in_order, of_shape


@raises("lax.dot_general")
def product(call: Call, reading: Reading) -> Expr | None:
    """The last axes of a tensor times the first or last ones of another.

    A matrix may come first, as equinox has its weights: the result has its axis first then. What
    asks for a precision, or is of two dtypes, stays a `lax.dot_general`, of two matrices.
    """
    (left, right), batch = call.attrs["dimension_numbers"]
    x, w = call.args
    if not of_one_float(call) or asks_for_precision(call):
        return _of_rows(call)
    if batch != ((), ()) or not 0 < len(left) < known_ndim(x) or known_ndim(w) < 2:
        return None
    dims = known_dims(call)
    if known_ndim(x) == 2 < known_ndim(w) and right == (known_ndim(w) - 1,):
        turned = _times(w, right, x, left)
        order = [known_ndim(call) - 1, *range(known_ndim(call) - 1)]
        return None if turned is None else in_order(turned, order)
    found = _times(x, left, w, right)
    return None if found is None or dims is None else of_shape(found, dims)


def _of_rows(call: Call) -> Expr | None:
    """The very product, of a tensor as one matrix: its adjoints are products of two, then."""
    (left, right), batch = call.attrs["dimension_numbers"]
    (x, w), dims = call.args, known_dims(call)
    sizes, last = static_dims(x.ty), known_ndim(x) - 1
    if batch != ((), ()) or left != (last,) or last < 2 or known_ndim(w) != 2 or sizes is None:
        return None
    rows = of_shape(x, [math.prod(sizes[:-1]), sizes[-1]])
    numbers = ((1,), right), batch
    found = get_op("lax.dot_general")(rows, w, **{**call.attrs, "dimension_numbers": numbers})
    return None if dims is None else of_shape(found, dims)


def _times(x: Expr, left: tuple[int, ...], w: Expr, right: tuple[int, ...]) -> Expr | None:
    """The product over pairs of axes, which are the last of `x`, as one of matrices."""
    pairs = sorted(zip(left, right, strict=True))
    summed, count = tuple(axis for _, axis in pairs), len(pairs)
    if [axis for axis, _ in pairs] != list(range(known_ndim(x) - count, known_ndim(x))):
        return None
    if count == 1 and known_ndim(w) == 2:
        return get_op("relax.matmul")(x, in_order(w, (0, 1) if summed == (0,) else (1, 0)))
    sizes, others = static_dims(x.ty), static_dims(w.ty)
    if sizes is None or others is None or not _are_at_an_end(summed, known_ndim(w)):
        return None
    length = math.prod(sizes[axis] for axis in range(known_ndim(x) - count, known_ndim(x)))
    first = summed[0] == 0
    kept = others[count:] if first else others[:-count]
    if not kept:
        return None
    flat: list[Dim] = [length, element_count(kept)] if first else [element_count(kept), length]
    matrix = in_order(of_shape(w, flat), (0, 1) if first else (1, 0))
    rows = of_shape(x, [*sizes[: known_ndim(x) - count], length])
    return get_op("relax.matmul")(rows, matrix)


def _are_at_an_end(axes: tuple[int, ...], ndim: int) -> bool:
    first, last = range(len(axes)), range(ndim - len(axes), ndim)
    return axes in (tuple(first), tuple(last))
