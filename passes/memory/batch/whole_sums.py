"""Sums that were written slice by slice, as sums of whole tensors."""

from collections.abc import Sequence
from typing import NamedTuple

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ops.emit import reshaped

_ADDS = frozenset({"lax.add", "lax.add_any"})


class _Slices(NamedTuple):
    """The sum of so many slices of a tensor along an axis, from each of these places on."""

    x: Var
    axis: int
    size: int
    starts: tuple[int, ...]

    def part(self, axis: int, start: int, size: int) -> "_Slices | None":
        """A slice of the sum, which is the sum of slices."""
        if axis != self.axis:
            return None
        return self._replace(size=size, starts=tuple(one + start for one in self.starts))


def with_whole_sums(function: Function) -> Function:
    """The function with sums for what adds up all slices of a tensor, as ReduceBySlices writes it.

    Of a sum it can be known that it is one over the samples of a batch.
    """
    sums: dict[Var, _Slices] = {}

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        call = binding.value
        found = _found(call, sums) if isinstance(call, Call) else None
        if found is None:
            return None
        sums[binding.var] = found
        dims = static_dims(found.x.ty) or ()
        if operator_name(call) not in _ADDS or found.size != 1:
            return None
        if sorted(found.starts) != [*range(dims[found.axis])]:
            return None
        whole = builder.emit(get_op("lax.reduce_sum")(found.x, axes=[found.axis]))
        return reshaped(whole, [1 if at == found.axis else dim for at, dim in enumerate(dims)])

    changed = expand_bindings(function, rule)
    return function if changed is function else remove_all_unused(changed)


def _found(call: Call, sums: dict[Var, _Slices]) -> _Slices | None:
    """What slices a call adds up, one of them or two sums of some."""
    name = operator_name(call)
    if name == "lax.slice":
        return _slice(call, sums)
    if name not in _ADDS:
        return None
    left, right = (sums.get(arg) if isinstance(arg, Var) else None for arg in call.args)
    if left is None or right is None or left[:3] != right[:3]:
        return None
    return left._replace(starts=left.starts + right.starts)


def _slice(call: Call, sums: dict[Var, _Slices]) -> _Slices | None:
    (x,), dims = call.args, static_dims(call.args[0].ty)
    starts: Sequence[int] = call.attrs["start_indices"]
    ends: Sequence[int] = call.attrs["limit_indices"]
    if (
        not isinstance(x, Var)
        or dims is None
        or any(n != 1 for n in call.attrs.get("strides") or ())
    ):
        return None
    cut = [at for at, dim in enumerate(dims) if (starts[at], ends[at]) != (0, dim)]
    if len(cut) != 1:
        return None
    (axis,) = cut
    start, size = starts[axis], ends[axis] - starts[axis]
    part = sums[x].part(axis, start, size) if x in sums else None
    return part or _Slices(x, axis, size, (start,))
