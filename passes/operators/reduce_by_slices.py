"""Sums and maxima over an axis that XLA's compiler for CPUs is slow along, slice by slice."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype, static_dims
from relaxjax.ir.uses import Uses
from relaxjax.ops.emit import reshaped
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten

_BYTES = {"float32": 4, "float64": 8}
_OF_TWO = {"lax.reduce_sum": "lax.add", "lax.reduce_max": "lax.max", "lax.reduce_min": "lax.min"}
# Behind the axis lie more bytes than this: XLA 0.10 takes 10 to 100 times as long as slices do.
_LONG_ROWS = 2**16
# Or the axis has so few elements, of which there are many in all: 0.04 to 0.9 of the time. With
# more of them, so few numbers are to lie behind it.
_FEW, _SHORT, _CLOSE, _MANY = 4, 8, 16, 2**14
# So many slices at a time: XLA writes out an expression for each.
_AT_ONCE = 16


@pass_factory(opt_level=0, kind="function")
def ReduceBySlices(function: Function, mod: IRModule) -> Function:
    """Compute sums, maxima and minima along some axes as operations of two slices each.

    XLA's compiler for CPUs reads a tensor number by number in two cases. The first is a sum over
    an axis behind which long rows lie, as in the gradient of embeddings of positions, which is a
    sum over the batch. The second is an axis of a few elements with few numbers behind it, such as
    the three coordinates of a point, or the logits of two classes.

    Slices are combined in pairs, and up to 16 at a time. What the tensor is made of is computed in
    the same kernel, and is not stored. The function is to be legalised, its tensors are of float32
    or float64 and of known sizes. For other platforms, and where the machine has several devices,
    among which the axis may be split, it stays as it is.
    """
    if chosen_platform() != "cpu" or len(jax.devices("cpu")) > 1:
        return function
    return rewritten(function, _LAWS)


@law(*_OF_TWO)
def slices(call: Call, op: Op, known: Uses) -> Expr | None:
    """The sum of x[:, k] over k as x[:, 0] + x[:, 1] and so on."""
    (x,), dims = call.args, static_dims(call.args[0].ty)
    bytes_each = _BYTES.get(known_dtype(call) or "")
    if dims is None or bytes_each is None or set(call.attrs) != {"axes"}:
        return None
    sizes = _around(dims, call.attrs["axes"])
    if sizes is None:
        return None
    _, length, behind = sizes
    is_long = behind * bytes_each > _LONG_ROWS
    is_short = length <= (_SHORT if behind <= _CLOSE else _FEW) and math.prod(dims) >= _MANY
    if length < 2 or not (is_long or is_short):
        return None
    slabs = _Slabs(reshaped(x, sizes), *sizes)
    return reshaped(slabs.combined(get_op(_OF_TWO[op.name])), known_dims(call) or ())


_LAWS = Laws([slices])


def _around(dims: Sequence[int], axes: Sequence[int]) -> tuple[int, int, int] | None:
    """How many elements lie before, along and behind some axes, None where others lie between."""
    own = [axis for axis in axes if dims[axis] > 1]
    if not own or math.prod(dims) == 0:
        return None
    first, end = min(own), max(own) + 1
    length = math.prod(dims[axis] for axis in own)
    if math.prod(dims[first:end]) != length:
        return None
    return math.prod(dims[:first]), length, math.prod(dims[end:])


@dataclass(frozen=True)
class _Slabs:
    """A tensor of three axes, of which the second one is to go."""

    x: Expr
    before: int
    length: int
    behind: int

    def combined(self, of_two: Op) -> Expr:
        """All that lies along the axis, combined in pairs."""
        if self.length <= _AT_ONCE:
            return self._pairs([self._slab(place, 1) for place in range(self.length)], of_two)
        size = self.length // _AT_ONCE
        slabs = [self._slab(place * size, size) for place in range(_AT_ONCE)]
        first = replace(self, x=self._pairs(slabs, of_two), length=size).combined(of_two)
        rest = range(_AT_ONCE * size, self.length)
        return self._pairs([first, *(self._slab(place, 1) for place in rest)], of_two)

    def _slab(self, start: int, size: int) -> Expr:
        end = [self.before, start + size, self.behind]
        return get_op("lax.slice")(self.x, start_indices=[0, start, 0], limit_indices=end)

    def _pairs(self, parts: list[Expr], of_two: Op) -> Expr:
        while len(parts) > 1:
            left = parts[-1:] if len(parts) % 2 else []
            parts = [of_two(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + left
        return parts[0]
