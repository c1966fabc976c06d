"""Sums along axes that XLA's compiler for CPUs is slow along, slice by slice."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype, static_dims
from relaxjax.ir.uses import Uses
from relaxjax.ops.emit import reshaped
from relaxjax.ops.platform import chosen_platform, has_several_cpus
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten

_BYTES = {"float32": 4, "float64": 8}
_WIDE = [{dtype} for dtype in _BYTES]
_OF_TWO = {"lax.reduce_sum": "lax.add", "lax.reduce_max": "lax.max", "lax.reduce_min": "lax.min"}
# Behind the axis lie more bytes than this: XLA 0.10 takes 10 to 100 times as long as slices do.
_LONG_ROWS = 2**16
# Or the axis has so few elements, of which there are many in all: 0.04 to 0.9 of the time. With
# more of them, so few numbers are to lie behind it.
_FEW, _SHORT, _CLOSE, _MANY = 4, 8, 16, 2**14
# Or it has a few more, of rows that are looked up for this alone: 0.1 to 0.8 of the time. Of 16
# slices, XLA stores the rows, and takes as long as for the sum.
_LOOKED_UP = 12
# So many products of matrices or more, which sum over 4 to 7 numbers, and give so few: 0.02 to 0.5
# of the time. Those with fewer multiplications XLA computes number by number itself.
_BATCH, _INNER, _LARGEST, _LEAST = 2**8, range(4, 8), 36, 32
# So many slices at a time: XLA writes out an expression for each.
_AT_ONCE = 16


@pass_factory(opt_level=0, kind="function")
def ReduceBySlices(function: Function, mod: IRModule) -> Function:
    """Compute sums, maxima and minima along some axes as operations of two slices each.

    XLA's compiler for CPUs reads a tensor number by number in three cases. The first is a sum over
    an axis behind which long rows lie, as in the gradient of embeddings of positions, which is a
    sum over the batch. The second is an axis of a few elements, such as the three coordinates of a
    point, or the logits of two classes. The third are up to 12 rows of a table that are looked up
    and summed, as for what a user has bought.

    Products of many small matrices, such as transforms of space, are calls of a library for each;
    they become sums of elementwise products.

    Slices are combined in pairs, and up to 16 at a time. What the tensor is made of is computed in
    the same kernel, and is not stored. The function is to be legalised, its tensors are of float32
    or float64 and of known sizes. For other platforms, and where the machine has several devices,
    among which the axis may be split, it stays as it is.
    """
    return reduced_by_slices(function)


def reduced_by_slices(function: Function) -> Function:
    """What ReduceBySlices makes of a function, which may be a part of no module yet."""
    if chosen_platform() != "cpu" or has_several_cpus():
        return function
    return rewritten(function, _LAWS)


@law(*_OF_TWO)
def reduction_of_slices(call: Call, op: Op, known: Uses) -> Expr | None:
    """The sum of x[:, k] over k as x[:, 0] + x[:, 1] and so on."""
    (x,), dims = call.args, static_dims(call.args[0].ty)
    bytes_each = _BYTES.get(known_dtype(call) or "")
    if dims is None or bytes_each is None or set(call.attrs) != {"axes"}:
        return None
    merged = _merged(dims, call.attrs["axes"])
    if merged is None:
        return None
    axis, sizes = merged
    length, behind = sizes[axis], math.prod(sizes[axis + 1 :])
    is_long = behind * bytes_each > _LONG_ROWS
    is_looked_up = known.used_once(x) and known.call(x, "lax.gather") is not None
    most = _LOOKED_UP if is_looked_up else _SHORT if behind <= _CLOSE else _FEW
    is_short = length <= most and math.prod(dims) >= _MANY
    if not (is_long or is_short):
        return None
    found = _Slices(reshaped(x, sizes), sizes, axis).combined(get_op(_OF_TWO[op.name]))
    return reshaped(found, known_dims(call) or ())


@law("lax.dot_general")
def small_products(call: Call, op: Op, known: Uses) -> Expr | None:
    """The sum of a[b, i, k] c[b, k, j] over k, for each b, as products of slices along k."""
    summed, batch = call.attrs["dimension_numbers"]
    dims, left = static_dims(call.ty), static_dims(call.args[0].ty)
    dtypes = {known_dtype(call), *map(known_dtype, call.args)}
    if dims is None or left is None or len(summed[0]) != 1 or dtypes not in _WIDE:
        return None
    length, first, middle = left[summed[0][0]], len(batch[0]), len(left) - 1
    rows, columns = math.prod(dims[first:middle]), math.prod(dims[middle:])
    is_small = length in _INNER and rows * columns <= _LARGEST
    is_loop = min(rows, columns) < 2 or rows * columns * length < _LEAST
    if not is_small or is_loop or math.prod(dims[:first]) < _BATCH:
        return None
    places = range(middle), [*range(first), *range(middle, len(dims))]
    factors = map(_spread, call.args, batch, summed, places, [(*dims, length)] * 2)
    products = _Slices(get_op("lax.mul")(*factors), (*dims, length), len(dims))
    # Else XLA would store the elementwise products, and add them in each kernel that reads sums.
    return get_op("relax.grad.once")(reshaped(products.combined(get_op("lax.add")), dims))


_LAWS = Laws([reduction_of_slices, small_products])


def _merged(dims: Sequence[int], axes: Sequence[int]) -> tuple[int, Sequence[int]] | None:
    """Some axes as one, and the dimensions with it: None where others lie between, or nothing."""
    own = [axis for axis in axes if dims[axis] > 1]
    if not own or math.prod(dims) == 0:
        return None
    first, end = min(own), max(own) + 1
    length = math.prod(dims[axis] for axis in own)
    if math.prod(dims[first:end]) != length:
        return None
    return first, (*dims[:first], length, *dims[end:])


def _spread(
    x: Expr, batch: Sequence[int], summed: Sequence[int], places: Sequence[int], dims: Sequence[int]
) -> Expr:
    """A factor with the axis that is summed over last, repeated along those of the other one."""
    own = [axis for axis in range(len(places) + 1) if axis not in (*batch, *summed)]
    order = [*batch, *own, *summed]
    turned = x if order == sorted(order) else get_op("lax.transpose")(x, permutation=order)
    to = [*places, len(dims) - 1]
    return get_op("lax.broadcast_in_dim")(turned, shape=list(dims), broadcast_dimensions=to)


@dataclass(frozen=True)
class _Slices:
    """A tensor, and the axis of it that is to become one element."""

    x: Expr
    dims: Sequence[int]
    axis: int

    def combined(self, of_two: Op) -> Expr:
        """All that lies along the axis, combined in pairs."""
        length = self.dims[self.axis]
        if length <= _AT_ONCE:
            return self._pairs([self._slice(place, 1) for place in range(length)], of_two)
        size = length // _AT_ONCE
        slabs = [self._slice(place * size, size) for place in range(_AT_ONCE)]
        dims = [*self.dims[: self.axis], size, *self.dims[self.axis + 1 :]]
        first = _Slices(self._pairs(slabs, of_two), dims, self.axis).combined(of_two)
        rest = range(_AT_ONCE * size, length)
        return self._pairs([first, *(self._slice(place, 1) for place in rest)], of_two)

    def _slice(self, start: int, size: int) -> Expr:
        starts, ends = [0] * len(self.dims), list(self.dims)
        starts[self.axis], ends[self.axis] = start, start + size
        return get_op("lax.slice")(self.x, start_indices=starts, limit_indices=ends)

    def _pairs(self, parts: list[Expr], of_two: Op) -> Expr:
        while len(parts) > 1:
            left = parts[-1:] if len(parts) % 2 else []
            parts = [of_two(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + left
        return parts[0]
