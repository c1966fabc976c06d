"""Scaled dot-product attention on tensors of shape (batch, sequence, heads, head dimension)."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different, floordiv
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import finite_range
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, dims_of, dtype_of, number, scalar, where
from relaxjax.ops.index import require_integers
from relaxjax.ops.shapes import common_dtype, dims_text
from relaxjax.ops.sugar import sugar
from relaxjax.ops.traced import traced_gradient

_MASKS = (None, "TopLeft", "BottomRight")
_RULES: dict[str, Any] = {"precision": "always", "fusion": "contraction"}


def _require_mask(causal_mask: str | None, window_size: int | None) -> None:
    if causal_mask not in _MASKS:
        raise OpError(f"`causal_mask` must be TopLeft, BottomRight or None, found {causal_mask}")
    if window_size is not None and window_size < 1:
        raise OpError(f"`window_size` must be positive, found {window_size}")


def _attention_type(query: TensorType, key: TensorType, value: TensorType) -> TensorType:
    parts = {"query": query, "key": key, "value": value}
    dtype = common_dtype(**parts)
    for name, ty in parts.items():
        if ty.ndim not in (-1, 4):
            raise OpError(
                f"`{name}` must have 4 dimensions, which are the batch, the sequence, the heads "
                f"and the head's own, found {ty.ndim}"
            )
    if query.dims is None or key.dims is None or value.dims is None:
        return TensorType(None, dtype, 4, query.vdevice)
    _require_same("key", "batch", query.dims[0], key.dims[0])
    _require_same("value", "batch", query.dims[0], value.dims[0])
    _require_same("value", "sequence", key.dims[1], value.dims[1])
    _require_same("value", "number of heads", key.dims[2], value.dims[2])
    _require_same("key", "head dimension", query.dims[3], key.dims[3])
    heads, key_heads = query.dims[2], key.dims[2]
    if isinstance(heads, int) and isinstance(key_heads, int) and heads % key_heads:
        raise OpError(
            f"`query` must have a multiple of the {key_heads} heads of `key`, found {heads}"
        )
    return TensorType((*query.dims[:3], value.dims[3]), dtype, vdevice=query.vdevice)


def _require_same(name: str, what: str, wanted: Dim, found: Dim) -> None:
    if can_prove_different(wanted, found):
        raise OpError(f"`{name}` must have a {what} of {wanted}, found {found}")


def _require_bias(query: TensorType, key: TensorType, bias: TensorType) -> None:
    if bias.ndim not in (-1, 4):
        raise OpError(f"`bias` must have 4 dimensions, found {bias.ndim}")
    if query.dims is None or key.dims is None or bias.dims is None:
        return
    wanted = (query.dims[0], query.dims[2], query.dims[1], key.dims[1])
    for dim, found in zip(wanted, bias.dims, strict=True):
        if found != 1 and can_prove_different(dim, found):
            raise OpError(
                f"`bias` must broadcast to {dims_text(wanted)}, which are the batch, the heads, "
                f"the queries and the keys, found {dims_text(bias.dims)}"
            )


def _offset(causal_mask: str, queries: Any, keys: Any) -> Any:
    """By how much a query may see further than its own place."""
    return keys - queries if causal_mask == "BottomRight" else 0


def _visible(
    queries: Any, keys: Any, causal_mask: str | None, window_size: int | None
) -> Any | None:
    """Which keys (columns) each query (rows) sees, None where it is all of them."""
    if causal_mask is None and window_size is None:
        return None
    shape = (queries, keys)
    distance = lax.broadcasted_iota(jnp.int32, shape, 0) - lax.broadcasted_iota(jnp.int32, shape, 1)
    distance = distance + _offset(causal_mask or "TopLeft", queries, keys)
    seen = distance >= 0 if causal_mask else jnp.ones(shape, bool)
    return seen if window_size is None else seen & (distance < window_size)


def _lowest(dtype: Any) -> float:
    """A number whose exponential is 0, and that unlike infinity gives no NaN."""
    return finite_range(dtype)[0]


def _scores(query: Any, key: Any, scale: float | None) -> Any:
    """The scaled products of queries and keys, by batch and head, in float32 at least."""
    wide = jnp.float32 if query.dtype.itemsize < 4 else query.dtype
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    products = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=wide)
    return products * jnp.asarray(factor, wide)


def _weighted(scores: Any, seen: Any | None, value: Any, dtype: Any) -> Any:
    """The mean of the values by the softmax of the scores."""
    if seen is not None:
        seen = jnp.broadcast_to(seen, scores.shape)
        scores = lax.select(seen, scores, jnp.full_like(scores, _lowest(scores.dtype)))
    weights = jax.nn.softmax(scores, -1).astype(value.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value).astype(dtype)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Any:
    groups = query.shape[2] // key.shape[2]
    if groups > 1:
        key, value = (jnp.repeat(part, groups, 2) for part in (key, value))
    scores = _scores(query, key, scale)
    if bias is not None:
        scores = scores + bias.astype(scores.dtype)
    seen = _visible(query.shape[1], key.shape[1], causal_mask, window_size)
    return _weighted(scores, None if seen is None else seen[None, None], value, query.dtype)


def _mask_expr(
    scores: Expr, queries: Dim, keys: Dim, causal_mask: str | None, window_size: int | None
) -> Expr:
    """The scores with those out of sight at the lowest number."""
    if causal_mask is None and window_size is None:
        return scores
    offset = _offset(causal_mask or "TopLeft", queries, keys)
    seen = call("ones", (queries, keys), "int32")
    if causal_mask is not None:
        seen = call("tril", seen, offset)
    if window_size is not None:
        seen = call("triu", seen, offset - window_size + 1)
    lowest = scalar(_lowest(dtype_of(scores)), scores)
    return where(call("astype", seen, "bool"), scores, lowest)


def _gradient(
    g: Expr,
    y: Expr,
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> tuple[Expr | None, ...]:
    """Through the weights, computed again: nothing of their size outlives the forward program."""
    heads, key_heads = dims_of(query)[2], dims_of(key)[2]
    rows = [call("permute_dims", part, [0, 2, 1, 3]) for part in (query, key, value, g)]
    q, k, v, h = rows
    if heads != key_heads:
        k, v = (call("repeat", part, floordiv(heads, key_heads), 1) for part in (k, v))
    factor = _factor(query, scale)
    scores: Expr = call("matmul", q, call("permute_dims", k, [0, 1, 3, 2])) * factor
    if bias is not None:
        scores = scores + bias
    masked = _mask_expr(scores, dims_of(query)[1], dims_of(key)[1], causal_mask, window_size)
    weights = call("nn.softmax", masked, -1)
    to_weights = call("matmul", h, call("permute_dims", v, [0, 1, 3, 2]))
    to_scores = (to_weights - call("sum", to_weights * weights, -1, True)) * weights
    scaled = to_scores * factor
    to_query: Expr = call("matmul", scaled, k)
    to_key: Expr = call("matmul", call("permute_dims", scaled, [0, 1, 3, 2]), q)
    to_value: Expr = call("matmul", call("permute_dims", weights, [0, 1, 3, 2]), h)
    to_key, to_value = (_heads_summed(p, key_heads, heads) for p in (to_key, to_value))
    back = (call("permute_dims", part, [0, 2, 1, 3]) for part in (to_query, to_key, to_value))
    return *back, None if bias is None else to_scores


def _factor(query: Expr, scale: float | None) -> Expr:
    if scale is not None:
        return scalar(scale, query)
    dim = dims_of(query)[3]
    return (
        scalar(1 / math.sqrt(dim), query)
        if isinstance(dim, int)
        else call("rsqrt", number(dim, query))
    )


def _heads_summed(adjoint: Expr, key_heads: Dim, heads: Dim) -> Expr:
    """The adjoint of keys or values that several heads of the queries share."""
    if heads == key_heads:
        return adjoint
    batch, _, length, size = dims_of(adjoint)
    apart = call("reshape", adjoint, (batch, key_heads, floordiv(heads, key_heads), length, size))
    return call("sum", apart, 2)


@op(
    "relax.nn.attention",
    lower=lambda query, key, value, **attrs: _attention(query, key, value, None, **attrs),
    gradient=lambda g, y, query, key, value, **attrs: _gradient(
        g, y, query, key, value, None, **attrs
    )[:3],
    **_RULES,
)
def plain_attention(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> TensorType:
    """Attention: softmax(scale * query @ key^T) @ value, for each batch and head.

    `scale` is 1 / sqrt(head dimension) if not given. A query sees the keys up to its own place with
    the mask TopLeft; with BottomRight the last query sees all. `window_size` is how many of them,
    counted back from there. Several heads of the query may share one of the keys and values.
    """
    _require_mask(causal_mask, window_size)
    return _attention_type(query, key, value)


@op("relax.nn.attention_bias", lower=_attention, gradient=_gradient, **_RULES)
def biased_attention(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    bias: TensorType,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> TensorType:
    """As attention, with a bias that is added to the scaled products before the softmax."""
    _require_mask(causal_mask, window_size)
    _require_bias(query, key, bias)
    return _attention_type(query, key, value)


@sugar("relax.nn.attention")
def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Expr:
    """Attention, by the operator that takes a bias where there is one."""
    attrs = {"scale": scale, "causal_mask": causal_mask, "window_size": window_size}
    if bias is None:
        return plain_attention(query, key, value, **attrs)
    return biased_attention(query, key, value, bias, **attrs)


sugar("relax.nn.attention_bias")(attention)


def _complete_var_len(
    seqstart_q: Expr,
    max_seqlen_q: Expr,
    seqstart_k: Expr | None,
    max_seqlen_k: Expr | None,
    **_: Any,
) -> Mapping[str, Any]:
    return {"seqstart_k": seqstart_k or seqstart_q, "max_seqlen_k": max_seqlen_k or max_seqlen_q}


def _segments(starts: Any, length: Any) -> tuple[Any, Any]:
    """Of each place in a packed sequence: which sequence it is of, and where in it it stands."""
    places = lax.iota(starts.dtype, length)
    owner = jnp.searchsorted(starts, places, side="right", method="compare_all")
    owner = owner.astype(starts.dtype) - 1
    return owner, places - jnp.take(starts, owner, mode="clip")


def _attention_var_len(
    queries: Any,
    keys: Any,
    values: Any,
    seqstart_q: Any,
    max_seqlen_q: Any,
    seqstart_k: Any,
    max_seqlen_k: Any,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Any:
    owner_q, place_q = _segments(seqstart_q, queries.shape[1])
    owner_k, place_k = _segments(seqstart_k, keys.shape[1])
    seen = owner_q[:, None] == owner_k[None, :]
    distance = place_q[:, None] - place_k[None, :]
    if causal_mask == "BottomRight":
        extra = (seqstart_k[1:] - seqstart_k[:-1]) - (seqstart_q[1:] - seqstart_q[:-1])
        distance = distance + jnp.take(extra, owner_q, mode="clip")[:, None]
    if causal_mask is not None:
        seen = seen & (distance >= 0)
    if window_size is not None:
        seen = seen & (distance < window_size)
    groups = queries.shape[2] // keys.shape[2]
    if groups > 1:
        keys, values = (jnp.repeat(part, groups, 2) for part in (keys, values))
    scores = _scores(queries, keys, scale)
    return _weighted(scores, seen[None, None], values, queries.dtype)


@op(
    "relax.nn.attention_var_len",
    complete=_complete_var_len,
    lower=_attention_var_len,
    gradient=traced_gradient("relax.nn.attention_var_len"),
    **_RULES,
)
def attention_var_len(
    queries: TensorType,
    keys: TensorType,
    values: TensorType,
    seqstart_q: TensorType,
    max_seqlen_q: TensorType,
    seqstart_k: TensorType | None = None,
    max_seqlen_k: TensorType | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> TensorType:
    """Attention within each of several sequences that are packed into one, end to end.

    `seqstart_q[i]` is where sequence i starts, with one more at the end; those of the keys are the
    same if not given.
    """
    _require_mask(causal_mask, window_size)
    for name, starts in (("seqstart_q", seqstart_q), ("seqstart_k", seqstart_k)):
        if starts is not None:
            require_integers(starts, name)
            if starts.ndim not in (-1, 1):
                raise OpError(f"`{name}` must have 1 dimension, found {starts.ndim}")
    return _attention_type(queries, keys, values)
