"""Permuting axes behind a concatenation instead of before it."""

from relaxjax.ir.expr import Call, Expr, Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.uses import Uses
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten


@pass_factory(opt_level=1, kind="function")
def ReorderPermuteDimsAfterConcat(function: Function, mod: IRModule) -> Function:
    """Concatenate tensors whose axes are all permuted alike first, and permute the result."""
    return rewritten(function, LAWS)


@law("relax.concat")
def permuted_after_concat(call: Call, op: Op, known: Uses) -> Expr | None:
    """The concatenation of tensors that are permuted alike is permuted as a whole."""
    if not isinstance(call.args[0], Tuple):
        return None
    found = [known.call(item, "relax.permute_dims") for item in call.args[0].fields]
    permuted = [item for item in found if item is not None]
    axis = call.attrs["axis"]
    if len(permuted) != len(found) or len(permuted) < 2 or axis is None:
        return None
    orders = {tuple(_order(item)) for item in permuted}
    order = next(iter(orders))
    if len(orders) > 1 or not order:
        return None
    items = [item.args[0] for item in permuted]
    whole = op(items, order[axis % len(order)])
    return get_op("relax.permute_dims")(whole, permuted[0].attrs["axes"])


LAWS = Laws([permuted_after_concat])


def _order(call: Call) -> list[int]:
    """The axes of a permutation, counted from the first; none where they are unknown."""
    ndim = known_ndim(call)
    if ndim < 1:
        return []
    axes = call.attrs["axes"]
    return list(reversed(range(ndim))) if axes is None else [axis % ndim for axis in axes]
