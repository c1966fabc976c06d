"""Attention on arrays, forward and backward, a chunk of the queries at a time.

A query under a causal mask sees the keys up to its own place, so a chunk of queries is multiplied
by the keys that one of them sees, and by no others: half of the work, and of the memory for the
products, is left out. On a CPU that takes 0.6 of the time for 256 queries and half for 1024
(`benchmarks/operators.py`); elsewhere, where more and smaller programs may cost more, all queries
are one chunk.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

# Chunks are not shorter than this, and there are not more of them: each is a program of its own.
_SHORTEST, _MOST = 128, 8


class Chunk(NamedTuple):
    """Some queries, from `start` to before `stop`, and the keys that one of them may see."""

    start: int
    stop: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Scope:
    """Which keys a query sees: by how much a causal mask lets it see ahead, and how far back."""

    causal: bool
    ahead: Any
    window: int | None
    chunked: bool

    @property
    def whole(self) -> bool:
        """Whether every query sees every key."""
        return not self.causal and self.window is None

    @property
    def certain(self) -> bool:
        """Whether every query sees some key, whatever the lengths of both."""
        return self.window is None

    def chunks(self, queries: Any, keys: Any) -> Iterator[Chunk]:
        """All queries in chunks, those of a sequence of unknown length in one."""
        known = all(isinstance(length, int) for length in (queries, keys, self.ahead))
        length = max(_SHORTEST, -(-queries // _MOST)) if known else queries
        if self.whole or not self.chunked or not known or queries <= length:
            yield Chunk(0, queries, 0, keys)
            return
        for start in range(0, queries, length):
            stop = min(start + length, queries)
            high = min(stop + self.ahead, keys) if self.causal else keys
            first = 0 if self.window is None else start + self.ahead - self.window + 1
            low = min(max(first, 0), keys - 1)
            yield Chunk(start, stop, low, max(high, low + 1))

    def seen(self, chunk: Chunk) -> Any | None:
        """Which keys (columns) each query of a chunk (rows) sees, None where it is all of them."""
        shape = chunk.stop - chunk.start, chunk.high - chunk.low
        return self.seen_from(shape, chunk.start - chunk.low)

    def seen_from(self, shape: tuple[Any, Any], offset: Any) -> Any | None:
        """The same of a table whose first row is `offset` places behind its first column."""
        if self.whole:
            return None
        row, column = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
        distance = row - column + (offset + self.ahead)
        seen = distance >= 0 if self.causal else jnp.ones(shape, bool)
        return seen if self.window is None else seen & (distance < self.window)


def scope_of(
    queries: Any, keys: Any, causal_mask: str | None, window_size: int | None, chunked: bool
) -> Scope:
    """The keys that a query sees by a mask, aligned at the first of both or the last."""
    extra: Any = 0
    if causal_mask == "BottomRight":
        extra = keys - queries
        extra = abs(extra) if isinstance(extra, int) else jnp.abs(jnp.asarray(extra, jnp.int32))
    return Scope(causal_mask is not None, extra, window_size, chunked)


def scale_of(query: Any, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which products are summed, and their softmax is taken: float32 at least."""
    return jnp.float32 if dtype.itemsize < 4 else dtype


def _by_heads(x: Any) -> Any:
    """(batch, length, heads, size) with the heads before the length, as products want it."""
    return jnp.swapaxes(x, 1, 2)


def _rows(x: Any, heads: Any) -> Any:
    """By heads of the keys, the query's heads that share one as groups: a new axis before rows."""
    batch, length, count, size = x.shape
    groups = 1 if count == heads else count // heads
    return _by_heads(x).reshape(batch, heads, groups, length, size)


def _flat(x: Any) -> Any:
    """Groups and their rows as one axis: products of plain matrices are the fastest."""
    batch, heads, groups, length, size = x.shape
    return x.reshape(batch, heads, groups * length, size)


def _together(parts: Sequence[Any], query: Any) -> Any:
    """The rows of all chunks in the order of the query's axes."""
    batch, length, count, _ = query.shape
    out = parts[0] if len(parts) == 1 else jnp.concatenate(parts, 3)
    return _by_heads(out.reshape(batch, count, length, out.shape[-1]))


def _apart(x: Any, groups: Any) -> Any:
    """What `_flat` made one axis, as two again."""
    batch, heads, rows, size = x.shape
    return x.reshape(batch, heads, groups, rows // groups, size)


def for_groups(table: Any, groups: Any) -> Any:
    """A table of rows and keys, behind two axes, repeated for every group."""
    if groups == 1:
        return table
    batch, heads, rows, columns = table.shape
    spread = jnp.broadcast_to(table[:, :, None], (batch, heads, groups, rows, columns))
    return _flat(spread)


def scores_of(
    rows: Any, keys: Any, bias: Any, seen: Any, factor: float, hidden: float = -math.inf
) -> Any:
    """The scaled products of rows and keys with a bias; `hidden` for those that are not `seen`."""
    wide = wide_dtype(rows.dtype)
    scores = jnp.einsum("bhrd,bhkd->bhrk", rows, keys, preferred_element_type=wide)
    scores = scores * jnp.asarray(factor, wide)
    if bias is not None:
        scores = scores + bias.astype(wide)
    if seen is not None:
        scores = jnp.where(seen, scores, jnp.asarray(hidden, wide))
    return scores


class Powers(NamedTuple):
    """A softmax before its division: of each row the `shares`, and their `total`."""

    less: Any  # the scores less the largest of their row
    shares: Any
    total: Any

    @property
    def weights(self) -> Any:
        """The softmax, not as a quotient: XLA would write the totals out for each score."""
        return jnp.exp(self.less - jnp.log(self.total))

    def means(self, values: Any) -> Any:
        """For each row the mean of the values by its shares.

        The sums are divided, which are fewer than the shares.
        """
        return (_sums_of_rows(self.shares, values) / self.total).astype(values.dtype)


def _powers(
    rows: Any,
    keys: Any,
    bias: Any,
    seen: Any,
    factor: float,
    certain: bool = False,
    hidden: float = -math.inf,
) -> Powers:
    """The softmax of the scaled products of rows and keys, in float32 at least.

    What is not `seen` has the score `hidden`. Unless it is `certain` that every row sees something,
    or that has a score of its own: one that does not has weights of 0.
    """
    scores = scores_of(rows, keys, bias, seen, factor, hidden)
    certain = certain and scores.shape[-1] != 0
    top = lax.stop_gradient(lax.expand_dims(lax.reduce_max(scores, (3,)), (3,)))
    top = top if certain else jnp.where(jnp.isfinite(top), top, jnp.zeros_like(top))
    less = scores - top
    shares = jnp.exp(less)
    total = jnp.sum(shares, -1, keepdims=True)
    total = total if certain else jnp.where(total == 0, jnp.ones_like(total), total)
    return Powers(less, shares, total)


def _sums_of_rows(weights: Any, values: Any) -> Any:
    """For each row the sum of the values by its weights."""
    narrow = weights.astype(values.dtype)
    return jnp.einsum("bhrk,bhkd->bhrd", narrow, values, preferred_element_type=weights.dtype)


def _sums_of_keys(weights: Any, rows: Any) -> Any:
    """For each key the sum of the rows by its weights."""
    narrow = weights.astype(rows.dtype)
    return jnp.einsum("bhrk,bhrd->bhkd", narrow, rows, preferred_element_type=weights.dtype)


def _scaled(sums: Callable[[Any, Any], Any], weights: Any, x: Any, factor: float) -> Any:
    """Sums by weights times a factor: afterwards, when they are fewer.

    Weights that get a smaller range for the product are scaled before it: they could overflow.
    """
    scale = jnp.asarray(factor, weights.dtype)
    if jnp.finfo(x.dtype).maxexp < jnp.finfo(weights.dtype).maxexp:  # type: ignore[no-untyped-call]  # JAX has no types for it
        return sums(weights * scale, x)
    return sums(weights, x) * scale


def _bias_part(bias: Any, chunk: Chunk, heads: Any, groups: Any) -> Any:
    """A bias for a chunk, its heads taken apart as those of the query."""
    if bias is None:
        return None
    part = bias if bias.shape[2] == 1 else lax.slice_in_dim(bias, chunk.start, chunk.stop, axis=2)
    part = part if bias.shape[3] == 1 else lax.slice_in_dim(part, chunk.low, chunk.high, axis=3)
    return of_groups(part, heads, groups, chunk.stop - chunk.start)


def of_groups(table: Any, heads: Any, groups: Any, length: Any) -> Any:
    """A table for the query's heads, taken apart as they are, for groups of `length` rows."""
    if groups == 1:
        return table
    batch, count, rows, columns = table.shape
    apart = (heads, groups) if count == heads * groups else (1, 1)
    shape = (batch, apart[0], groups, length, columns)
    return _flat(jnp.broadcast_to(table.reshape(batch, *apart, rows, columns), shape))


def _seen_part(scope: Scope, chunk: Chunk, groups: Any) -> Any:
    """Which keys the rows of a chunk see, for every batch and head."""
    seen = scope.seen(chunk)
    return None if seen is None else for_groups(seen[None, None], groups)


def attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
    chunked: bool,
) -> Any:
    """softmax(scale * query @ key^T + bias) @ value, for each batch and head."""
    scope = scope_of(query.shape[1], key.shape[1], causal_mask, window_size, chunked)
    heads, factor, parts = key.shape[2], scale_of(query, scale), []
    q, k, v = _rows(query, heads), _by_heads(key), _by_heads(value)
    groups = q.shape[2]
    for chunk in scope.chunks(query.shape[1], key.shape[1]):
        keys, values = (lax.slice_in_dim(x, chunk.low, chunk.high, axis=2) for x in (k, v))
        rows = _flat(lax.slice_in_dim(q, chunk.start, chunk.stop, axis=3))
        shift, seen = _bias_part(bias, chunk, heads, groups), _seen_part(scope, chunk, groups)
        powers = _powers(rows, keys, shift, seen, factor, bias is None and scope.certain)
        parts.append(_apart(powers.means(values), groups))
    return _together(parts, query).astype(query.dtype)


def attention_where(query: Any, key: Any, value: Any, seen: Any, scale: float | None) -> Any:
    """Attention where a table says which keys each query sees."""
    q = _rows(query, key.shape[2])
    groups = q.shape[2]
    mask = for_groups(seen[None, None], groups)
    powers = _powers(_flat(q), _by_heads(key), None, mask, scale_of(query, scale))
    return _together([_apart(powers.means(_by_heads(value)), groups)], query).astype(query.dtype)


def attention_backward(
    output_grad: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
    chunked: bool,
) -> tuple[Any, ...]:
    """The adjoints of query, key, value, and of the bias if it is one of floats.

    The weights are computed again: nothing of their size outlives the forward program.
    """
    scope = scope_of(query.shape[1], key.shape[1], causal_mask, window_size, chunked)
    heads, factor = key.shape[2], scale_of(query, scale)
    wide = wide_dtype(query.dtype)
    q, g, k, v = _rows(query, heads), _rows(output_grad, heads), _by_heads(key), _by_heads(value)
    groups, to_query = q.shape[2], []
    to_key, to_value = jnp.zeros(k.shape, wide), jnp.zeros(v.shape, wide)
    to_bias: Any = None
    if bias is not None and jnp.issubdtype(bias.dtype, jnp.floating):
        to_bias = jnp.zeros(bias.shape, wide)
    for chunk in scope.chunks(query.shape[1], key.shape[1]):
        keys, values = (lax.slice_in_dim(x, chunk.low, chunk.high, axis=2) for x in (k, v))
        rows, h = (_flat(lax.slice_in_dim(x, chunk.start, chunk.stop, axis=3)) for x in (q, g))
        shift, seen = _bias_part(bias, chunk, heads, groups), _seen_part(scope, chunk, groups)
        weights = _powers(rows, keys, shift, seen, factor, bias is None and scope.certain).weights
        to_scores = adjoint_of_scores(weights, h, values)
        if to_bias is not None:
            to_bias = with_bias_part(to_bias, _apart(to_scores, groups), chunk)
        to_rows = _scaled(_sums_of_rows, to_scores, keys, factor).astype(keys.dtype)
        to_query.append(_apart(to_rows, groups))
        to_key = _added(to_key, _scaled(_sums_of_keys, to_scores, rows, factor), chunk)
        to_value = _added(to_value, _sums_of_keys(weights, h), chunk)
    adjoints = (_together(to_query, query), _by_heads(to_key), _by_heads(to_value), to_bias)
    given: tuple[Any, ...] = (query, key, value, bias)
    pairs = zip(adjoints, given, strict=True)
    return tuple(adjoint.astype(x.dtype) for adjoint, x in pairs if adjoint is not None)


def adjoint_of_scores(weights: Any, to_means: Any, values: Any, drift: Any = None) -> Any:
    """The adjoint of the scores from those of the means of the values.

    Of weights of some keys, `drift` is what those of all keys give: the means times their adjoint.
    """
    wide = weights.dtype
    to_weights = jnp.einsum("bhrd,bhkd->bhrk", to_means, values, preferred_element_type=wide)
    if drift is None:
        drift = jnp.sum(to_weights * weights, -1, keepdims=True)
    return (to_weights - drift) * weights


def masked_attention(
    query: Any, key: Any, value: Any, mask: Any, scale: float | None, hidden: float
) -> Any:
    """softmax(where(mask, scale * query @ key^T, hidden)) @ value, for each batch and head."""
    q = _rows(query, key.shape[2])
    powers, _ = _masked_powers(q, query, key, mask, scale, hidden)
    means = _apart(powers.means(_by_heads(value)), q.shape[2])
    return _together([means], query).astype(query.dtype)


def _masked_powers(
    q: Any, query: Any, key: Any, mask: Any, scale: float | None, hidden: float
) -> tuple[Any, Any]:
    """The weights of all keys, and which of them each row sees."""
    whole = Chunk(0, query.shape[1], 0, key.shape[1])
    seen = _bias_part(mask, whole, key.shape[2], q.shape[2])
    factor = scale_of(query, scale)
    return _powers(_flat(q), _by_heads(key), None, seen, factor, True, hidden), seen


def masked_attention_backward(
    output_grad: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    scale: float | None,
    hidden: float,
) -> tuple[Any, ...]:
    """The adjoints of query, key and value. Nothing goes back through what is hidden."""
    heads = key.shape[2]
    q, h = _rows(query, heads), _flat(_rows(output_grad, heads))
    powers, seen = _masked_powers(q, query, key, mask, scale, hidden)
    weights = powers.weights
    to_scores = adjoint_of_scores(weights, h, _by_heads(value))
    to_scores = jnp.where(seen, to_scores, jnp.zeros_like(to_scores))
    factor = scale_of(query, scale)
    to_rows = _scaled(_sums_of_rows, to_scores, _by_heads(key), factor)
    to_query = _apart(to_rows.astype(key.dtype), q.shape[2])
    adjoints = (
        _together([to_query], query),
        _by_heads(_scaled(_sums_of_keys, to_scores, _flat(q), factor)),
        _by_heads(_sums_of_keys(weights, h)),
    )
    given = (query, key, value)
    return tuple(adjoint.astype(x.dtype) for adjoint, x in zip(adjoints, given, strict=True))


def _added(total: Any, part: Any, chunk: Chunk) -> Any:
    """`total` with the rows of a chunk's keys increased."""
    if total.shape == part.shape:
        return total + part
    more = lax.slice_in_dim(total, chunk.low, chunk.high, axis=2) + part
    return lax.dynamic_update_slice_in_dim(total, more, chunk.low, 2)


def with_bias_part(to_bias: Any, to_scores: Any, chunk: Chunk) -> Any:
    """The adjoint of a bias with that of a chunk's scores, summed where the bias was repeated."""
    batch, heads, groups, rows, columns = to_scores.shape
    part = to_scores.reshape(batch, heads * groups, rows, columns)
    repeated = [a for a in range(4) if to_bias.shape[a] == 1 and part.shape[a] != 1]
    part = jnp.sum(part, repeated, keepdims=True) if repeated else part
    if part.shape == to_bias.shape:
        return to_bias + part
    start = (0 if to_bias.shape[2] == 1 else chunk.start, 0 if to_bias.shape[3] == 1 else chunk.low)
    old = lax.dynamic_slice(to_bias, (0, 0, *start), part.shape)
    return lax.dynamic_update_slice(to_bias, old + part, (0, 0, *start))
