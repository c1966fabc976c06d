"""Products with few columns that sum over the rows of both factors, with the narrow one turned."""

from typing import NamedTuple

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dtype, static_dims
from relaxjax.ir.uses import Uses
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten

_WIDE = ("float32", "float64")
# Up to so many columns, if the other factor has so many times as many or more, the product takes
# 0.05 to 0.95 of the time, and those of a batch 0.14 to 0.8; with 128 columns it takes 0.65 to 1.6.
_FEW, _TIMES, _TIMES_IN_BATCH = 64, 2, 4
# With fewer rows for each column, the result that is turned is no smaller than the data would be:
# with as many, the product takes 0.5 to 1.4 of the time, with an eighth 9 times as long.
_ROWS = 2
# With fewer numbers in the wide factor, the product takes a few microseconds in any form.
_MANY = 2**14


@pass_factory(opt_level=0, kind="function")
def NarrowProducts(function: Function, mod: IRModule) -> Function:
    """Compute the gradient of a narrow matrix from its narrow factor turned, and turn the result.

    The gradient of a layer's weight is the product of the layer's data, turned, with the adjoint of
    its result. XLA's compiler for CPUs turns the data to compute it. Where the layer has few
    outputs, as the last one of a classifier or a factor of low rank, the adjoint is a small part of
    the data: the product of the adjoint, turned, with the data is computed instead.

    It is stored before it is turned itself, because XLA would make one product of both again: with
    few rows, that is no less than the data. The function is to be legalised, and for other
    platforms it stays as it is.
    """
    return rewritten(function, _LAWS) if chosen_platform() == "cpu" else function


@law("lax.dot_general")
def narrow_product(call: Call, op: Op, known: Uses) -> Expr | None:
    """a^T b = (b^T a)^T, with few columns in b."""
    if known_dtype(call) not in _WIDE or {known_dtype(x) for x in call.args} != {known_dtype(call)}:
        return None
    if isinstance(asked := call.attrs.get("precision"), Attrs) and "DotAlgorithm" in asked:
        return None  # of the first factor and of the second
    (first, other), batch = call.attrs["dimension_numbers"]
    wide = _as_it_lies(call.args[0], first, batch[0], known)
    narrow = _as_it_lies(call.args[1], other, batch[1], known)
    if wide is None or narrow is None:
        return None
    times = _TIMES_IN_BATCH if wide.batch else _TIMES
    is_narrow = narrow.columns <= _FEW and times * narrow.columns <= wide.columns
    is_long = wide.rows >= _ROWS * narrow.columns
    if not is_narrow or not is_long or wide.rows * wide.columns < _MANY:
        return None
    axes = tuple(range(wide.batch))
    row, column = wide.batch, wide.batch + 1
    numbers = ((row,), (row,)), (axes, axes)
    attrs = {**call.attrs, "dimension_numbers": numbers}
    if isinstance(precision := attrs.get("precision"), tuple):
        attrs["precision"] = precision[::-1]  # each factor has its own
    product = op(narrow.expr, wide.expr, **attrs)
    stored = get_op("relax.grad.once")(product)
    return get_op("lax.transpose")(stored, permutation=(*axes, column, row))


class _Rows(NamedTuple):
    """Matrices whose rows are summed over, for each of a batch that comes first."""

    expr: Expr
    batch: int  # how many axes it has
    rows: int
    columns: int


def _as_it_lies(
    x: Expr, summed: tuple[int, ...], batch: tuple[int, ...], known: Uses
) -> _Rows | None:
    """A factor before it was turned, None where it is not summed over its rows."""
    turned = known.call(x, "lax.transpose")
    if turned is not None:
        x, order = turned.args[0], turned.attrs["permutation"]
        summed, batch = (tuple(order[axis] for axis in axes) for axes in (summed, batch))
    dims, first = static_dims(x.ty), len(batch)
    if dims is None or batch != tuple(range(first)) or summed != (first,) or len(dims) != first + 2:
        return None
    return _Rows(x, first, *dims[first:])


_LAWS = Laws([narrow_product])
