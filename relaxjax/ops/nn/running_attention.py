"""Attention over long sequences: a block of scores at a time, and no more of them.

The softmax of a query's scores is made as their blocks come: with the largest score so far, and
the sums so far of the powers and of the values by them, which shrink where a larger score comes.
Blocks that a causal mask or a window hides are never computed. So the memory grows as the length
does, and not as its square, and the blocks stay in the caches.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from .attending import (
    Chunk,
    Scope,
    adjoint_of_scores,
    for_groups,
    of_groups,
    scores_of,
    wide_dtype,
    with_bias_part,
)


class Block(NamedTuple):
    """How many queries and keys are multiplied at a time."""

    queries: int
    keys: int


@dataclass(frozen=True, eq=False)
class Running:
    """Attention of these arrays, by blocks; `running` makes them.

    `table` is a bias that is added to the scores; with `hidden`, it is true where a score counts,
    and the others are `hidden`. It is `certain` that every row sees a key or has scores of its own.
    """

    rows: Any  # (blocks, batch, heads of the keys, heads that share one and queries, size)
    keys: Any  # (blocks, batch, heads, keys, size)
    values: Any
    table: Any
    block: Block
    groups: int
    last: int  # the number of keys: what is behind them fills up a block
    scope: Scope
    factor: float
    certain: bool
    hidden: float | None

    def means(self) -> tuple[Any, Any, Any]:
        """For each row: the mean of the values, the largest score, and 1 by the powers' total."""
        places = jnp.arange(self.rows.shape[0])
        _, packed = lax.scan(self._means_of_rows, None, (places, self.rows))
        return packed[..., :-2], packed[..., -2:-1], packed[..., -1:]

    def adjoints(self, grads: Any) -> tuple[Any, Any, Any, Any]:
        """The adjoints of rows, keys, values and table, None of a table that has none.

        They need what the forward program computes. It is the same loop here, so that it is there
        once where both programs are one: therefore what it gives is packed into one array, of which
        each takes what it needs.
        """
        wide, to_table = wide_dtype(self.rows.dtype), None
        if self.table is not None and jnp.issubdtype(self.table.dtype, jnp.floating):
            to_table = jnp.zeros(self.table.shape, wide)
        sums = jnp.zeros(self.keys.shape, wide), jnp.zeros(self.values.shape, wide), to_table
        places = jnp.arange(self.rows.shape[0])
        items = (places, self.rows, grads, *self.means())
        (to_keys, to_values, to_table), to_rows = lax.scan(self._adjoints_of_rows, sums, items)
        return to_rows, to_keys, to_values, to_table

    def _means_of_rows(self, carry: None, item: tuple[Any, Any]) -> tuple[None, Any]:
        place, rows = item
        wide, values = wide_dtype(rows.dtype), self.values

        def step(j: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            top, total, means = state
            scores = self._scores(place, j, rows)
            higher = jnp.maximum(top, jnp.max(scores, -1, keepdims=True))
            powers = jnp.exp(scores - _finite(higher))
            shrunk = jnp.exp(top - _finite(higher))
            some = _at(values, j)
            more = _product("bhrk,bhkd->bhrd", powers.astype(some.dtype), some, wide)
            total = total * shrunk + jnp.sum(powers, -1, keepdims=True)
            return higher, total, means * shrunk + more

        empty = (*rows.shape[:-1], 1)
        start = (
            jnp.full(empty, -jnp.inf, wide),
            jnp.zeros(empty, wide),
            jnp.zeros((*rows.shape[:-1], values.shape[-1]), wide),
        )
        top, total, means = lax.fori_loop(*self._key_range(place), step, start)
        share = 1 / (total if self.certain else jnp.where(total == 0, jnp.ones_like(total), total))
        return None, jnp.concatenate([means * share, _finite(top), share], -1)

    def _adjoints_of_rows(self, sums: Any, item: tuple[Any, ...]) -> tuple[Any, Any]:
        place, rows, grads, means, top, share = item
        wide, keys, values = wide_dtype(rows.dtype), self.keys, self.values
        drift = jnp.sum(grads.astype(wide) * means, -1, keepdims=True)

        def step(j: Any, state: Any) -> Any:
            to_rows, (to_key, to_value, to_table) = state
            weights = jnp.exp(self._scores(place, j, rows) - top) * share
            to_scores = adjoint_of_scores(weights, grads, _at(values, j), drift)
            if self.hidden is not None:
                to_scores = jnp.where(self._table(place, j), to_scores, jnp.zeros_like(to_scores))
            if to_table is not None:
                to_table = self._with_part(to_table, to_scores, place, j)
            to_products = (to_scores * jnp.asarray(self.factor, wide)).astype(rows.dtype)
            to_rows = to_rows + _product("bhrk,bhkd->bhrd", to_products, _at(keys, j), wide)
            of_key = _product("bhrk,bhrd->bhkd", to_products, rows, wide)
            of_value = _product("bhrk,bhrd->bhkd", weights.astype(grads.dtype), grads, wide)
            return to_rows, (_added(to_key, j, of_key), _added(to_value, j, of_value), to_table)

        start = jnp.zeros(rows.shape, wide), sums
        to_rows, sums = lax.fori_loop(*self._key_range(place), step, start)
        return sums, to_rows

    def _scores(self, place: Any, j: Any, rows: Any) -> Any:
        """The scores of a block of queries and one of keys; minus infinity behind the last key."""
        seen, bias, hidden = None, self._table(place, j), -math.inf
        if self.hidden is not None:
            seen, bias, hidden = bias, None, self.hidden
        elif not self.scope.whole:
            offset = place * self.block.queries - j * self.block.keys
            table = self.scope.seen_from(self.block, offset)
            seen = for_groups(jnp.asarray(table)[None, None], self.groups)
        scores = scores_of(rows, _at(self.keys, j), bias, seen, self.factor, hidden)
        if self.last % self.block.keys == 0:
            return scores
        column = lax.broadcasted_iota(jnp.int32, (1, 1, 1, self.block.keys), 3)
        return jnp.where(
            column < self.last - j * self.block.keys, scores, jnp.full_like(scores, -jnp.inf)
        )

    def _key_range(self, place: Any) -> tuple[Any, Any]:
        """The blocks of keys of which the queries of a block see some: the first, and the end."""
        size = self.block.keys
        first: Any = 0
        end: Any = self.keys.shape[0]
        start = place * self.block.queries + self.scope.ahead
        if self.scope.window is not None:
            first = jnp.clip((start - self.scope.window + 1) // size, 0, end)
        if self.scope.causal:
            end = jnp.clip((start + self.block.queries + size - 1) // size, 0, end)
        return first, end

    def _table(self, place: Any, j: Any) -> Any:
        """The part of the table for a block of queries and one of keys."""
        table = self.table
        if table is None:
            return None
        for axis, start, size in zip((2, 3), (place, j), self.block, strict=True):
            if table.shape[axis] != 1:
                table = lax.dynamic_slice_in_dim(table, start * size, size, axis)
        return of_groups(table, self.keys.shape[2], self.groups, self.block.queries)

    def _with_part(self, to_table: Any, to_scores: Any, place: Any, j: Any) -> Any:
        """The adjoint of the table with that of a block's scores."""
        batch, heads, _, columns = to_scores.shape
        apart = to_scores.reshape(batch, heads, self.groups, self.block.queries, columns)
        start, low = place * self.block.queries, j * self.block.keys
        chunk = Chunk(start, start + self.block.queries, low, low + self.block.keys)
        return with_bias_part(to_table, apart, chunk)


def running(
    query: Any,
    key: Any,
    value: Any,
    table: Any,
    block: Block,
    scope: Scope,
    factor: float,
    certain: bool,
    hidden: float | None = None,
) -> Running:
    """Attention of arrays of (batch, length, heads, size), taken apart into blocks."""
    groups = query.shape[2] // key.shape[2]
    if table is not None:
        more = [0 if n == 1 else -n % s for n, s in zip(table.shape[2:], block, strict=True)]
        table = _padded(table, {2: more[0], 3: more[1]})
    return Running(
        rows=rows_of(query, block.queries, groups),
        keys=_keys_of(key, block.keys),
        values=_keys_of(value, block.keys),
        table=table,
        block=block,
        groups=groups,
        last=key.shape[1],
        scope=scope,
        factor=factor,
        certain=certain,
        hidden=hidden,
    )


def _product(subscripts: str, a: Any, b: Any, dtype: Any) -> Any:
    return jnp.einsum(subscripts, a, b, preferred_element_type=dtype)


def _at(blocks: Any, j: Any) -> Any:
    return lax.dynamic_index_in_dim(blocks, j, keepdims=False)


def _added(blocks: Any, j: Any, part: Any) -> Any:
    """Blocks of which one is increased, where it lies."""
    return lax.dynamic_update_index_in_dim(blocks, _at(blocks, j) + part, j, 0)


def _finite(top: Any) -> Any:
    """The largest score, 0 where all are hidden, or one is no number."""
    return jnp.where(jnp.isfinite(top), top, jnp.zeros_like(top))


def _padded(x: Any, more: dict[int, int]) -> Any:
    if not any(more.values()):
        return x
    return jnp.pad(x, [(0, more.get(axis, 0)) for axis in range(x.ndim)])


def rows_of(x: Any, size: int, groups: int) -> Any:
    """(batch, length, heads, size) in blocks of rows, with those of the heads that share a key."""
    batch, _, heads, width = x.shape
    x = _padded(x, {1: -x.shape[1] % size})
    x = x.reshape(batch, -1, size, heads // groups, groups, width).transpose(1, 0, 3, 4, 2, 5)
    return x.reshape(x.shape[0], batch, heads // groups, groups * size, width)


def from_rows(x: Any, size: int, groups: int, length: int) -> Any:
    """What `rows_of` took apart."""
    count, batch, shared, _, width = x.shape
    x = x.reshape(count, batch, shared, groups, size, width).transpose(1, 0, 4, 2, 3, 5)
    return x.reshape(batch, count * size, shared * groups, width)[:, :length]


def _keys_of(x: Any, size: int) -> Any:
    """(batch, length, heads, size) in blocks of the length, behind which stand batch and heads."""
    batch, _, heads, width = x.shape
    x = _padded(x, {1: -x.shape[1] % size})
    return x.reshape(batch, -1, size, heads, width).transpose(1, 0, 3, 2, 4)


def from_keys(x: Any, length: int) -> Any:
    """What `_keys_of` took apart."""
    count, batch, heads, size, width = x.shape
    return x.transpose(1, 0, 3, 2, 4).reshape(batch, count * size, heads, width)[:, :length]
