"""Attention by blocks of scores where there are many of them, and by all scores elsewhere.

How many are many, and how large blocks are, is another matter for each platform: `Limits` says it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from relaxjax.ops.traced import differentiated_as

from . import attending
from .attending import scale_of, scope_of
from .running_attention import Block, Running, from_keys, from_rows, rows_of, running

Form = Callable[..., Any]

_SMALLEST = 128  # of a block, on either side


@dataclass(frozen=True, slots=True)
class Limits:
    """When attention goes by blocks of scores, and how large these are."""

    of_a_head: int  # so many scores or more
    of_all: int  # so many of all heads together
    fewest: int  # so many queries and keys
    at_a_time: int  # how many scores of all heads are computed at a time
    largest: int  # of a block, on either side

    def block(
        self, queries: Any, keys: Any, stacked: Any, groups: Any, window: int | None
    ) -> Block | None:
        """The blocks of attention, None where all scores of some queries are computed at once.

        It is `stacked` as many times as there are batches and heads of the keys, each of which is
        shared by `groups` of the query's heads.
        """
        if not all(isinstance(length, int) for length in (queries, keys, stacked, groups)):
            return None
        scores = queries * keys
        if scores < self.of_a_head or min(queries, keys) < self.fewest or stacked * groups == 0:
            return None
        if scores * stacked * groups < self.of_all:
            return None
        size = self.largest
        wide = size if window is None else window  # a block wider than a window is mostly hidden
        while size > _SMALLEST and (size**2 * stacked > self.at_a_time or size > wide):
            size //= 2
        return Block(max(size // groups, _SMALLEST // 4), size)


@dataclass(frozen=True, slots=True)
class LongAttention:
    """The lowerings of attention and its adjoints; `chunked` are those of few scores."""

    limits: Limits
    chunked: bool

    def attention(self, query: Any, key: Any, value: Any, bias: Any, **attrs: Any) -> Any:
        """softmax(scale * query @ key^T + bias) @ value, for each batch and head."""
        plain = partial(attending.attention, **attrs, chunked=self.chunked)
        by_blocks = partial(scoped, **attrs)
        window = attrs["window_size"]
        return self._means(plain, by_blocks, query, key, value, bias, window=window)

    def attention_backward(
        self, output_grad: Any, query: Any, key: Any, value: Any, bias: Any, **attrs: Any
    ) -> tuple[Any, ...]:
        """The adjoints of query, key, value, and of the bias if it is one of floats."""
        plain = partial(attending.attention_backward, **attrs, chunked=self.chunked)
        by_blocks = partial(scoped, **attrs)
        given = output_grad, query, key, value, bias
        return self._adjoints(plain, by_blocks, *given, window=attrs["window_size"])

    def masked_attention(self, query: Any, key: Any, value: Any, mask: Any, **attrs: Any) -> Any:
        """softmax(where(mask, scale * query @ key^T, hidden)) @ value, for each batch and head."""
        plain = partial(attending.masked_attention, **attrs)
        return self._means(plain, partial(masked, **attrs), query, key, value, mask)

    def masked_attention_backward(
        self, output_grad: Any, query: Any, key: Any, value: Any, mask: Any, **attrs: Any
    ) -> tuple[Any, ...]:
        """The adjoints of query, key and value. Nothing goes back through what is hidden."""
        plain = partial(attending.masked_attention_backward, **attrs)
        by_blocks = partial(masked, **attrs)
        return self._adjoints(plain, by_blocks, output_grad, query, key, value, mask)

    def _means(self, plain: Form, by_blocks: Form, *given: Any, window: int | None = None) -> Any:
        block = self._block_for(given[0], given[1], window)
        if block is None:
            return plain(*given)
        return differentiated_as(plain, partial(result, by_blocks, block))(*given)

    def _adjoints(
        self, plain: Form, by_blocks: Form, *given: Any, window: int | None = None
    ) -> tuple[Any, ...]:
        block = self._block_for(given[1], given[2], window)
        if block is None:
            return tuple(plain(*given))
        return tuple(differentiated_as(plain, partial(adjoints, by_blocks, block))(*given))

    def _block_for(self, query: Any, key: Any, window: int | None) -> Block | None:
        stacked, groups = key.shape[0] * key.shape[2], query.shape[2] // max(key.shape[2], 1)
        return self.limits.block(query.shape[1], key.shape[1], stacked, groups, window)


def result(by_blocks: Form, block: Block, *arrays: Any) -> Any:
    """What attention gives, computed by blocks of this size."""
    query = arrays[0]
    found = by_blocks(*arrays, block)
    means, _, _ = found.means()
    whole = from_rows(means, block.queries, found.groups, query.shape[1])
    return whole.astype(query.dtype)


def adjoints(by_blocks: Form, block: Block, output_grad: Any, *arrays: Any) -> tuple[Any, ...]:
    """What its backward operator gives, computed by blocks of this size."""
    query, key, _, table = arrays
    found = by_blocks(*arrays, block)
    rows = rows_of(output_grad, block.queries, found.groups)
    to_rows, to_keys, to_values, to_table = found.adjoints(rows)
    parts = [
        from_rows(to_rows, block.queries, found.groups, query.shape[1]),
        from_keys(to_keys, key.shape[1]),
        from_keys(to_values, key.shape[1]),
    ]
    if to_table is not None:
        parts.append(to_table[:, :, : table.shape[2], : table.shape[3]])
    return tuple(part.astype(like.dtype) for part, like in zip(parts, arrays, strict=False))


def scoped(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    block: Block,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Running:
    scope = scope_of(query.shape[1], key.shape[1], causal_mask, window_size, chunked=True)
    certain = bias is None and scope.certain
    return running(query, key, value, bias, block, scope, scale_of(query, scale), certain)


def masked(
    query: Any, key: Any, value: Any, mask: Any, block: Block, scale: float | None, hidden: float
) -> Running:
    scope = scope_of(query.shape[1], key.shape[1], None, None, chunked=True)
    return running(query, key, value, mask, block, scope, scale_of(query, scale), True, hidden)
