"""Combining matrix products that share their left factor."""

from collections.abc import Hashable

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory

from .parallel import Check, combined


@pass_factory(opt_level=0, kind="function")
def CombineParallelMatmul(
    function: Function, mod: IRModule, check: Check | None = None
) -> Function:
    """Compute matmuls that share their left factor as one, and split its result.

    The elementwise operators that follow in all branches alike, such as biases and activations, are
    computed before the split. `check` is asked of each group: given the left factor, the right
    ones, the biases and what the variables of the block are bound to, it says whether to combine.
    """
    return combined(function, product_key, 2, check)


def product_key(call: Call) -> tuple[Hashable, int, int] | None:
    """What products must share: the left factor, and the right one's shape but for its columns."""
    if call.op is not get_op("relax.matmul"):
        return None
    left, right = (arg.ty for arg in call.args)
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return None
    if left.ndim < 2 or right.ndim < 2 or right.dims is None:
        return None
    out = call.ty.dtype if isinstance(call.ty, TensorType) else None
    shared = (call.args[0], right.dims[:-1], right.dtype, out)
    return (shared, -1, -1) if isinstance(right.dims[-1], int) else None
