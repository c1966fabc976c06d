"""Combining products and convolutions that share their data."""

from collections.abc import Hashable

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dtype
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
    return combined(function, _product_key, 2, check)


@pass_factory(opt_level=4, kind="function")
def CombineParallelDense(function: Function, mod: IRModule, min_num_branches: int = 3) -> Function:
    """Compute dense layers that share their input as one, where there are so many of them.

    A dense layer is a matmul with a weight of two dimensions. Biases and activations that follow in
    all branches alike are computed before the split.
    """
    return combined(function, _dense_key, min_num_branches)


@pass_factory(opt_level=4, kind="function")
def CombineParallelBatchMatmul(
    function: Function, mod: IRModule, min_num_branches: int = 3
) -> Function:
    """Compute matmuls of stacks that share their left factor as one, where there are so many."""
    return combined(function, _stack_key, min_num_branches)


@pass_factory(opt_level=4, kind="function")
def CombineParallelConv2D(function: Function, mod: IRModule, min_num_branches: int = 3) -> Function:
    """Compute convolutions that share their data as one, where there are so many of them.

    Their kernels must be of one size, and they must agree in strides, padding and layouts; those of
    groups are left alone. Biases and activations that follow in all branches alike are computed
    before the split.
    """
    return combined(function, _convolution_key, min_num_branches)


def _product_key(call: Call) -> tuple[Hashable, int, int] | None:
    """What products must share: the left factor, and the right one's shape but for its columns."""
    if call.op is not get_op("relax.matmul"):
        return None
    left, right = (arg.ty for arg in call.args)
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return None
    if left.ndim < 2 or right.ndim < 2 or right.dims is None:
        return None
    out = known_dtype(call)
    shared = (call.args[0], right.dims[:-1], right.dtype, out)
    return (shared, -1, -1) if isinstance(right.dims[-1], int) else None


def _dense_key(call: Call) -> tuple[Hashable, int, int] | None:
    found = _product_key(call)
    weight = call.args[1].ty if found is not None else None
    return found if isinstance(weight, TensorType) and weight.ndim == 2 else None


def _stack_key(call: Call) -> tuple[Hashable, int, int] | None:
    found = _product_key(call)
    weight = call.args[1].ty if found is not None else None
    return found if isinstance(weight, TensorType) and weight.ndim > 2 else None


def _convolution_key(call: Call) -> tuple[Hashable, int, int] | None:
    if call.op is not get_op("relax.nn.conv2d") or call.attrs["groups"] != 1:
        return None
    weight, out = call.args[1].ty, call.ty
    if not isinstance(weight, TensorType) or weight.dims is None or not isinstance(out, TensorType):
        return None
    kernel, layout = call.attrs["kernel_layout"], call.attrs["out_layout"]
    place = kernel.index("O")
    rest = (weight.dims[:place], weight.dims[place + 1 :], weight.dtype, out.dtype)
    if not isinstance(weight.dims[place], int):
        return None
    shared = (call.args[0], call.attrs.without("out_dtype"), rest)
    return shared, place - len(kernel), layout.index("C") - len(layout)
