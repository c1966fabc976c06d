"""Modules of one attention, of three tensors or of one that holds all three."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, TupleGetItem, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ops.nn.attention import attention

__all__ = ["get_relax_attention_module", "get_relax_stacked_attention_module"]

Shape = Sequence[Dim]


def get_relax_attention_module(
    q_shape: Shape,
    k_shape: Shape,
    v_shape: Shape,
    *,
    dtype: str,
    bias_shape: Shape | str | None = None,
    qk_scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> IRModule:
    """`main(q, k, v)`, or `main(q, k, v, bias)`, which is one attention."""
    shapes = {"q": q_shape, "k": k_shape, "v": v_shape}
    if bias_shape is not None and not isinstance(bias_shape, str):  # some say it by "none"
        shapes["bias"] = bias_shape
    params = [Var(name, TensorType(shape, dtype)) for name, shape in shapes.items()]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            q, k, v = params[:3]
            bias = params[3] if len(params) > 3 else None
            output = builder.emit_output(
                attention(q, k, v, bias, qk_scale, causal_mask, window_size)
            )
        builder.emit_func_output(output)
    return builder.get()


def get_relax_stacked_attention_module(
    qkv: Any,
    b: Dim,
    s: Dim,
    n: Dim,
    h: Dim,
    h_v: Dim,
    op: str,
    bias: Any = None,
    qk_scale: float | None = None,
    single_shape: bool = False,
    layout: str = "BS3NH",
    causal_mask: str | None = None,
) -> IRModule:
    """`main(qkv)`, or `main(qkv, bias)`: an attention whose three tensors lie in one.

    Args:
        qkv: an array of its shape and dtype, as `bias` is.
        b: the samples; `s` the places, `n` the heads, `h` and `h_v` the sizes of a head.
        op: what takes the three apart, "split" or "strided_slice".
        single_shape: whether all three are of size `h`.
        layout: "BS3NH", or "SBN3H" with the places before the samples.
    """
    if layout not in ("BS3NH", "SBN3H"):
        raise ValueError(f'`layout` is "BS3NH" or "SBN3H", found {layout!r}')
    if op not in ("split", "strided_slice"):
        raise ValueError(f'`op` is "split" or "strided_slice", found {op!r}')
    by_samples = layout == "BS3NH"
    width = n * h if by_samples else h
    sizes = [[b, s, n, h], [b, s, n, h], [b, s, n, h if single_shape else h_v]]
    arrays = {"qkv": qkv} if bias is None else {"qkv": qkv, "bias": bias}
    given = [Var(name, TensorType(a.shape, str(a.dtype))) for name, a in arrays.items()]
    builder = BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            pieces = _pieces(builder, given[0], op, 2 if by_samples else 3, [width, width * 2])
            q, k, v = (
                builder.emit(
                    get_op("relax.reshape")(piece, size) if by_samples else _swapped(piece)
                )
                for piece, size in zip(pieces, sizes, strict=True)
            )
            added = None if bias is None else given[1]
            result = attention(q, k, v, added, qk_scale, causal_mask)
            if not by_samples:
                result = _swapped(builder.emit(result))
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    return builder.get()


def _pieces(builder: BlockBuilder, qkv: Var, op: str, axis: int, ends: Sequence[Dim]) -> list[Expr]:
    if op == "split":
        parts = builder.emit(get_op("relax.split")(qkv, ends, axis=axis))
        return [TupleGetItem(parts, index) for index in range(3)]
    assert isinstance(qkv.ty, TensorType)
    assert qkv.ty.dims is not None
    starts, stops = [0, *ends], [*ends, qkv.ty.dims[axis]]
    part = get_op("relax.strided_slice")
    pairs = zip(starts, stops, strict=True)
    return [part(qkv, [axis], [start], [stop], [1]) for start, stop in pairs]


def _swapped(value: Expr) -> Expr:
    return get_op("relax.permute_dims")(value, [1, 0, 2, 3])
