"""Products of rows with the matrices of their groups, as experts have, and counts of values."""

from typing import Any

from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar

from .indexing import index_add
from .pairs import fixed
from .promotion import cast
from .shapes import shaped
from .table import TABLE, Entry, aten, traced


@aten("_grouped_mm.default")
def grouped_mm(
    self: Expr,
    mat2: Expr,
    offs: Expr | None = None,
    bias: Expr | None = None,
    out_dtype: str | None = None,
) -> Expr:
    """Each row times one of the matrices: `offs` are the ends of their rows, one behind another.

    Rows behind the last end are zeros.
    """
    if offs is None or (ndim_of(self), ndim_of(mat2)) != (2, 3):
        raise ValueError("grouped products are there of rows with a stack of matrices, by `offs`")
    (count,) = dims_of(offs)
    before = call("concat", [call("zeros", [1], dtype_of(offs)), offs], 0)
    sizes = offs - call("strided_slice", before, [0], [0], [count], [1])
    found = traced(lax.ragged_dot, self, mat2, cast(sizes, "int32"))
    found = found if bias is None else found + bias
    return found if out_dtype is None else cast(found, out_dtype)


def _of_library(input: Expr, weight: Expr, offs: Expr) -> Expr:
    return grouped_mm(input, weight, offs)


# What the library transformers calls it where PyTorch has no kernel.
TABLE["transformers.grouped_mm_fallback.default"] = Entry(_of_library)


@aten("histc.default")
def histc(self: Expr, bins: int = 100, min: Any = 0, max: Any = 0) -> Expr:
    """How many elements lie in each of the equal parts of a range; those beside it do not count."""
    if not min < max:
        raise ValueError("counts between the extremes of the elements: give `min` and `max`")
    x = fixed(shaped(self, [-1]))
    low, high = scalar(min, x), scalar(max, x)
    is_inside = call("logical_and", x >= low, x <= high)
    inside = call("where", is_inside, x, low)
    part = call("floor", (inside - low) / (high - low) * scalar(bins, x))
    place = call("minimum", cast(part, "int64"), scalar(bins - 1, cast(part, "int64")))
    counts = call("zeros", [bins], dtype_of(x))
    return index_add(counts, 0, place, cast(is_inside, dtype_of(x)))
