"""Combining dense layers that share their input."""

from collections.abc import Hashable

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.passes.base import pass_factory

from .combine_parallel_matmul import product_key
from .parallel import combined


@pass_factory(opt_level=4, kind="function")
def CombineParallelDense(function: Function, mod: IRModule, min_num_branches: int = 3) -> Function:
    """Compute dense layers that share their input as one, where there are so many of them.

    A dense layer is a matmul with a weight of two dimensions. Biases and activations that follow in
    all branches alike are computed before the split.

    Before:

        @R.function
        def main(
            x: R.Tensor((8, 16), "float32"),
            w: R.Tensor((16, 4), "float32"),
            w1: R.Tensor((16, 4), "float32"),
            b: R.Tensor((4,), "float32"),
            b1: R.Tensor((4,), "float32"),
        ) -> R.Tensor((8, 4), "float32"):
            with R.dataflow():
                y = R.matmul(x, w)
                z = R.add(y, b)
                y1 = R.matmul(x, w1)
                z1 = R.add(y1, b1)
                out = R.multiply(z, z1)
                R.output(out)
            return out

    After `CombineParallelDense(min_num_branches=2)`:

        @R.function
        def main(
            x: R.Tensor((8, 16), "float32"),
            w: R.Tensor((16, 4), "float32"),
            w1: R.Tensor((16, 4), "float32"),
            b: R.Tensor((4,), "float32"),
            b1: R.Tensor((4,), "float32"),
        ) -> R.Tensor((8, 4), "float32"):
            with R.dataflow():
                lv = R.concat((w, w1), axis=1)
                lv1 = R.matmul(x, lv, out_dtype="float32")
                lv2 = R.concat((b, b1))
                lv3 = R.add(lv1, lv2)
                lv4 = R.split(lv3, indices_or_sections=[4], axis=1)
                z = lv4[0]
                z1 = lv4[1]
                out = R.multiply(z, z1)
                R.output(out)
            return out
    """
    return combined(function, _dense_key, min_num_branches)


def _dense_key(call: Call) -> tuple[Hashable, int, int] | None:
    found = product_key(call)
    weight = call.args[1].ty if found is not None else None
    return found if isinstance(weight, TensorType) and weight.ndim == 2 else None
