"""Combining convolutions that share their data."""

from collections.abc import Hashable

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory

from .parallel import combined


@pass_factory(opt_level=4, kind="function")
def CombineParallelConv2D(function: Function, mod: IRModule, min_num_branches: int = 3) -> Function:
    """Compute convolutions that share their data as one, where there are so many of them.

    Their kernels must be of one size, and they must agree in strides, padding and layouts; those of
    groups are left alone. Biases and activations that follow in all branches alike are computed
    before the split.
    """
    return combined(function, _convolution_key, min_num_branches)


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
