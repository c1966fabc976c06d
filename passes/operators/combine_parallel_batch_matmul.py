"""Combining products of stacks of matrices that share their left factor."""

from collections.abc import Hashable

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory

from .combine_parallel_matmul import product_key
from .parallel import combined


@pass_factory(opt_level=4, kind="function")
def CombineParallelBatchMatmul(
    function: Function, mod: IRModule, min_num_branches: int = 3
) -> Function:
    """Compute matmuls of stacks that share their left factor as one, where there are so many."""
    return combined(function, _stack_key, min_num_branches)


def _stack_key(call: Call) -> tuple[Hashable, int, int] | None:
    found = product_key(call)
    weight = call.args[1].ty if found is not None else None
    return found if isinstance(weight, TensorType) and weight.ndim > 2 else None
