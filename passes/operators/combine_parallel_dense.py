"""Combining dense layers that share their input."""

from collections.abc import Hashable

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory

from .combine_parallel_matmul import product_key
from .parallel import combined


@pass_factory(opt_level=4, kind="function")
def CombineParallelDense(function: Function, mod: IRModule, min_num_branches: int = 3) -> Function:
    """Compute dense layers that share their input as one, where there are so many of them.

    A dense layer is a matmul with a weight of two dimensions. Biases and activations that follow in
    all branches alike are computed before the split.
    """
    return combined(function, _dense_key, min_num_branches)


def _dense_key(call: Call) -> tuple[Hashable, int, int] | None:
    found = product_key(call)
    weight = call.args[1].ty if found is not None else None
    return found if isinstance(weight, TensorType) and weight.ndim == 2 else None
