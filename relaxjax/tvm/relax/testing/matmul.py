"""A module of one matrix product and what follows it."""

from collections.abc import Callable, Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType

__all__ = ["get_relax_matmul_module"]


def get_relax_matmul_module(
    x_shape: Sequence[Dim],
    y_shape: Sequence[Dim],
    in_dtype: str,
    out_dtype: str | None = None,
    transposed_y: bool = False,
    bias_shape: Sequence[Dim] | None = None,
    activation: Callable[[Expr], Expr] | None = None,
    residual_bin_op: Callable[[Expr, Expr], Expr] | None = None,
    residual_activation: Callable[[Expr], Expr] | None = None,
) -> IRModule:
    """`main(x, y)`, with a bias `main(x, y, bias)`: the product, with what is asked for behind it.

    Args:
        transposed_y: whether `y` comes with its last two axes swapped.
        activation: what is applied to the product with its bias.
        residual_bin_op: what joins that with `x`.
        residual_activation: what is applied to what they give.
    """
    x, y = Var("x", TensorType(x_shape, in_dtype)), Var("y", TensorType(y_shape, in_dtype))
    wide = out_dtype or in_dtype
    bias = None if bias_shape is None else Var("bias", TensorType(bias_shape, wide))
    builder = BlockBuilder()
    with builder.function("main", [x, y] if bias is None else [x, y, bias]):
        with builder.dataflow():
            right: Expr = y
            if transposed_y:
                axes = [*range(len(y_shape) - 2), -1, -2]
                right = builder.emit(get_op("relax.permute_dims")(y, axes))
            result: Expr = get_op("relax.matmul")(x, right, out_dtype=wide)
            if bias is not None:
                result = builder.emit(result) + bias
            if activation is not None:
                result = activation(builder.emit(result))
            if residual_bin_op is not None:
                result = residual_bin_op(builder.emit(result), x)
                if residual_activation is not None:
                    result = residual_activation(builder.emit(result))
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    return builder.get()
