"""What attention computes, in numpy, one query after another."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def seen_keys(
    i: int, queries: int, keys: int, causal_mask: str | None, window_size: int | None
) -> list[int]:
    """The keys that query `i` sees."""
    place = i + (abs(keys - queries) if causal_mask == "BottomRight" else 0)
    return [
        j
        for j in range(keys)
        if (causal_mask is None or j <= place) and (window_size is None or place - j < window_size)
    ]


def attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Array:
    """A query that sees no key gives 0."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    whole = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    shift = np.broadcast_to(0.0 if bias is None else bias, whole)
    for b, i, h in np.ndindex(*q.shape[:3]):
        head = h // (q.shape[2] // k.shape[2])
        seen = seen_keys(i, q.shape[1], k.shape[1], causal_mask, window_size)
        scores = k[b, seen, head] @ q[b, i, h] * factor + shift[b, h, i, seen]
        if seen and scores.max() > -np.inf:
            powers = np.exp(scores - scores.max())
            out[b, i, h] = powers / powers.sum() @ v[b, seen, head]
    return out


def masked_attention(
    q: Array, k: Array, v: Array, mask: Array, scale: float | None = None, hidden: float = -1e30
) -> Array:
    """What is hidden has a score of its own: where that is all there is, all weights are equal."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    seen = np.broadcast_to(mask, (q.shape[0], q.shape[2], q.shape[1], k.shape[1]))
    for b, i, h in np.ndindex(*q.shape[:3]):
        head = h // (q.shape[2] // k.shape[2])
        scores = np.where(seen[b, h, i], k[b, :, head] @ q[b, i, h] * factor, hidden)
        if scores.size:
            powers = np.exp(scores - scores.max())
            out[b, i, h] = powers / powers.sum() @ v[b, :, head]
    return out


def attention_var_len(
    q: Array,
    k: Array,
    v: Array,
    starts: Array,
    longest: Any,
    key_starts: Array | None = None,
    longest_keys: Any = None,
    **options: Any,
) -> Array:
    """Each sequence by itself; what lies outside of all of them gives 0."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    key_starts = starts if key_starts is None else key_starts
    for n in range(len(starts) - 1):
        rows, columns = slice(*starts[n : n + 2]), slice(*key_starts[n : n + 2])
        out[:, rows] = attention(q[:, rows], k[:, columns], v[:, columns], **options)
    return out


ATTENTION: dict[str, Callable[..., Any]] = {
    "relax.nn.attention": attention,
    "relax.nn.attention_bias": attention,
    "relax.nn.masked_attention": masked_attention,
    "relax.nn.attention_var_len": attention_var_len,
}
