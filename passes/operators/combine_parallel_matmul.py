"""Combining matrix products that share their left factor."""

from collections.abc import Hashable

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType
from relaxjax.passes.base import pass_factory

from .parallel import Check, combined


@pass_factory(opt_level=0, kind="function")
def CombineParallelMatmul(
    function: Function, mod: IRModule, check: Check | None = None
) -> Function:
    """Compute matmuls that share their left factor as one, and split its result.

    The elementwise operators that follow in all branches alike, such as biases and activations, are
    computed before the split. `check` is asked of each group: given the left factor, the right
    ones, the biases and what the variables of the block are bound to, it says whether to combine.

    Before:

        @R.function
        def main(
            x: R.Tensor((8, 16), "float32"),
            wq: R.Tensor((16, 4), "float32"),
            wk: R.Tensor((16, 4), "float32"),
        ) -> R.Tensor((8, 4), "float32"):
            with R.dataflow():
                q = R.matmul(x, wq)
                k = R.matmul(x, wk)
                out = R.multiply(q, k)
                R.output(out)
            return out

    After `CombineParallelMatmul()`:

        @R.function
        def main(
            x: R.Tensor((8, 16), "float32"),
            wq: R.Tensor((16, 4), "float32"),
            wk: R.Tensor((16, 4), "float32"),
        ) -> R.Tensor((8, 4), "float32"):
            with R.dataflow():
                lv = R.concat((wq, wk), axis=1)
                lv1 = R.matmul(x, lv, out_dtype="float32")
                lv2 = R.split(lv1, indices_or_sections=[4], axis=1)
                q = lv2[0]
                k = lv2[1]
                out = R.multiply(q, k)
                R.output(out)
            return out
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
