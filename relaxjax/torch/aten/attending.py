"""Attention of scaled products."""

import math

from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar, where

from .norms import dropped
from .promotion import cast
from .shapes import repeat_interleave, shaped, transpose
from .table import aten


@aten("scaled_dot_product_attention.default")
def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    attn_mask: Expr | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Expr:
    """By Relax's attention, which takes heads behind the queries; spelt out with dropout.

    A query that a mask of truth values hides all keys from gives 0.
    """
    bias, some = (None, None) if attn_mask is None else _bias(attn_mask, query)
    if dropout_p or ndim_of(query) != 4:
        if enable_gqa and dims_of(query)[-3] != dims_of(key)[-3]:
            times = dims_of(query)[-3] // dims_of(key)[-3]
            key, value = (repeat_interleave(one, times, -3) for one in (key, value))
        weights = _weights(query, key, bias, is_causal, scale)
        found: Expr = call("matmul", dropped(weights, dropout_p, True), value)
    else:
        heads_last = [transpose(one, 1, 2) for one in (query, key, value)]
        causal = "TopLeft" if is_causal else None
        if bias is None:
            found = call("nn.attention", *heads_last, scale, causal)
        else:
            sizes = dims_of(bias)
            bias = shaped(bias, [*[1] * (4 - len(sizes)), *sizes])
            found = call("nn.attention_bias", *heads_last, bias, scale, causal)
        found = transpose(found, 1, 2)
    return found if some is None else where(some, found, scalar(0, found))


def _bias(mask: Expr, like: Expr) -> tuple[Expr, Expr | None]:
    """What a mask adds to the products, and which queries see some key, if it may be none.

    It hides nothing from those that see none: no softmax is of nothing.
    """
    if dtype_of(mask) != "bool":
        return cast(mask, dtype_of(like)), None
    some = cast(call("max", cast(mask, "int32"), [ndim_of(mask) - 1], True), "bool")
    seen = call("logical_or", mask, call("logical_not", some))
    return where(seen, scalar(0, like), scalar(float("-inf"), like)), some


def _weights(
    query: Expr, key: Expr, bias: Expr | None, is_causal: bool, scale: float | None
) -> Expr:
    width = dims_of(query)[-1]
    if scale is None and not isinstance(width, int):
        raise ValueError("attention over heads of a symbolic width needs a `scale`")
    factor = 1 / math.sqrt(width) if scale is None and isinstance(width, int) else scale
    assert factor is not None
    scores: Expr = call("matmul", query * scalar(factor, query), transpose(key, -2, -1))
    if bias is not None:
        scores = scores + bias
    if is_causal:
        seen = call("tril", call("ones", ShapeExpr(dims_of(scores)[-2:]), "bool"), 0)
        scores = where(seen, scores, scalar(float("-inf"), scores))
    return call("nn.softmax", scores, -1)
