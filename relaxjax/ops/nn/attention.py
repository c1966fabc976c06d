"""Scaled dot-product attention on tensors of shape (batch, sequence, heads, head dimension)."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.types import TensorType
from relaxjax.ops.backward import backward_of, backward_rule
from relaxjax.ops.cost_rules import TRANSCENDENTAL_FLOPS, counting, dims_at
from relaxjax.ops.declare import OpError, op, sugar
from relaxjax.ops.index import require_integers
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.platform import by_platform
from relaxjax.ops.shapes import common_dtype, dims_text, never_repeated, require_ndim

from . import accelerated_attention as cuda
from .accelerated_attention import ACCELERATED
from .attending import attention_where as attend_where
from .long_attention import Limits, LongAttention

# Blocks pay from so many scores of a head on. The caches hold those that are computed at a time.
ON_CPU = LongAttention(
    Limits(of_a_head=2**22, of_all=0, fewest=512, at_a_time=2**21, largest=512), chunked=True
)

_MASKS = (None, "TopLeft", "BottomRight")
_RULES: dict[str, Any] = {"precision": "always", "fusion": "out_fusable"}


def _without_bias(lower: Callable[..., Any], places: int) -> Callable[..., Any]:
    """A lowering that takes a bias behind so many arrays, for those alone."""
    return lambda *arrays, **attrs: lower(*arrays[:places], None, **attrs)


_attend = by_platform(ACCELERATED.attention, cpu=ON_CPU.attention, cuda=cuda.attention)
_attend_backward = by_platform(
    ACCELERATED.attention_backward, cpu=ON_CPU.attention_backward, cuda=cuda.attention_backward
)


def _require_mask(causal_mask: str | None, window_size: int | None) -> None:
    if causal_mask not in _MASKS:
        raise OpError(f"`causal_mask` must be TopLeft, BottomRight or None, found {causal_mask}")
    if window_size is not None and window_size < 1:
        raise OpError(f"`window_size` must be positive, found {window_size}")


def _attention_type(
    query: TensorType, key: TensorType, value: TensorType, plural: bool = False
) -> TensorType:
    names = ("queries", "keys", "values") if plural else ("query", "key", "value")
    parts = dict(zip(names, (query, key, value), strict=True))
    dtype = common_dtype(**parts)
    for name, ty in parts.items():
        if ty.ndim not in (-1, 4):
            raise OpError(
                f"`{name}` must have 4 dimensions, which are the batch, the sequence, the heads "
                f"and the head's own, found {ty.ndim}"
            )
    if query.dims is None or key.dims is None or value.dims is None:
        return TensorType(None, dtype, 4, query.vdevice)
    queries, keys, values = names
    _require_same(keys, "batch", query.dims[0], key.dims[0])
    _require_same(values, "batch", query.dims[0], value.dims[0])
    _require_same(values, "sequence", key.dims[1], value.dims[1])
    _require_same(values, "number of heads", key.dims[2], value.dims[2])
    _require_same(keys, "head dimension", query.dims[3], key.dims[3])
    heads, key_heads = query.dims[2], key.dims[2]
    if isinstance(heads, int) and isinstance(key_heads, int) and heads % key_heads:
        raise OpError(
            f"`{queries}` must have a multiple of the {key_heads} heads of `{keys}`, found {heads}"
        )
    return TensorType((*query.dims[:3], value.dims[3]), dtype, vdevice=query.vdevice)


def _require_same(name: str, what: str, wanted: Dim, found: Dim) -> None:
    if can_prove_different(wanted, found):
        raise OpError(f"`{name}` must have a {what} of {wanted}, found {found}")


def _require_table(name: str, query: TensorType, key: TensorType, table: TensorType) -> None:
    require_ndim(name, table, 4)
    if query.dims is None or key.dims is None or table.dims is None:
        return
    wanted = (query.dims[0], query.dims[2], query.dims[1], key.dims[1])
    for dim, found in zip(wanted, table.dims, strict=True):
        if never_repeated(found, dim):
            raise OpError(
                f"`{name}` must broadcast to {dims_text(wanted)}, which are the batch, the heads, "
                f"the queries and the keys, found {dims_text(table.dims)}"
            )


def _attended(call: Call) -> Dim:
    """Both products, and a softmax between them; what a mask hides is computed all the same."""
    batch, queries, heads, width = dims_at(call, 0)
    keys, depth = dims_at(call, 1)[1], dims_at(call, 2)[3]
    products = batch * heads * queries * keys
    return products * ((width + depth) * 2 + TRANSCENDENTAL_FLOPS + 4)


@op(
    "relax.nn.attention",
    lower=_without_bias(_attend, 3),
    gradient=backward_rule("relax.nn.attention", "query", "key", "value"),
    **_RULES,
    cost=counting(_attended),
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
    the mask TopLeft, with BottomRight as many more as the lengths of queries and keys differ by.
    `window_size` is how many of them, counted back from there; where none is left, the result is
    0. Several heads of the query may share one of the keys and values.
    """
    _require_mask(causal_mask, window_size)
    return _attention_type(query, key, value)


@op(
    "relax.nn.attention_bias",
    lower=_attend,
    gradient=backward_rule("relax.nn.attention_bias", "query", "key", "value", "bias"),
    **_RULES,
    cost=counting(_attended),
)
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
    _require_table("bias", query, key, bias)
    return _attention_type(query, key, value)


@op(
    "relax.nn.masked_attention",
    lower=by_platform(ACCELERATED.masked_attention, cpu=ON_CPU.masked_attention),
    gradient=backward_rule("relax.nn.masked_attention", "query", "key", "value"),
    **_RULES,
    cost=counting(_attended),
)
def masked_attention(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    mask: TensorType,
    scale: float | None = None,
    hidden: float = -1e30,
) -> TensorType:
    """Attention to the keys where the mask is true: the score of the others is `hidden`.

    Where all are hidden, a query sees all of them alike. No gradient goes through hidden scores.
    """
    if mask.dtype not in (None, "bool"):
        raise OpError(f"`mask` must be of dtype bool, found {mask.dtype}")
    if not math.isfinite(hidden):
        raise OpError(f"`hidden` must be finite, found {hidden}")
    _require_table("mask", query, key, mask)
    return _attention_type(query, key, value)


attention_backward = backward_of(
    plain_attention, "query", "key", "value", lower=_without_bias(_attend_backward, 4)
)
attention_bias_backward = backward_of(
    biased_attention, "query", "key", "value", "bias", lower=_attend_backward
)
masked_attention_backward = backward_of(
    masked_attention,
    "query",
    "key",
    "value",
    lower=by_platform(ACCELERATED.masked_attention_backward, cpu=ON_CPU.masked_attention_backward),
)


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
    return {
        "seqstart_k": seqstart_q if seqstart_k is None else seqstart_k,
        "max_seqlen_k": max_seqlen_q if max_seqlen_k is None else max_seqlen_k,
    }


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
    inside = (owner_q >= 0) & (owner_q < seqstart_q.shape[0] - 1)
    seen = inside[:, None] & (owner_q[:, None] == owner_k[None, :])
    distance = place_q[:, None] - place_k[None, :]
    if causal_mask == "BottomRight":
        extra = abs((seqstart_k[1:] - seqstart_k[:-1]) - (seqstart_q[1:] - seqstart_q[:-1]))
        distance = distance + jnp.take(extra, owner_q, mode="clip")[:, None]
    if causal_mask is not None:
        seen = seen & (distance >= 0)
    if window_size is not None:
        seen = seen & (distance < window_size)
    return attend_where(queries, keys, values, seen, scale)


@op(
    "relax.nn.attention_var_len",
    complete=_complete_var_len,
    lower=_attention_var_len,
    gradient=backward_rule("relax.nn.attention_var_len", "queries", "keys", "values"),
    **_RULES,
    cost=LOWERED,
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
    same if not given. What lies outside of all sequences gives 0.
    """
    _require_mask(causal_mask, window_size)
    for name, starts in (("seqstart_q", seqstart_q), ("seqstart_k", seqstart_k)):
        if starts is not None:
            require_integers(starts, name)
            require_ndim(name, starts, 1)
    if seqstart_k is not None and seqstart_q.dims and seqstart_k.dims:
        sequences, found = seqstart_q.dims[0], seqstart_k.dims[0]
        if can_prove_different(sequences, found):
            raise OpError(
                f"`seqstart_k` must have {sequences} elements, as `seqstart_q`, found {found}"
            )
    return _attention_type(queries, keys, values, plural=True)


attention_var_len_backward = backward_of(attention_var_len, "queries", "keys", "values")
