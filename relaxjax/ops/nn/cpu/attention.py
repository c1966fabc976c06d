"""Which form computes attention on a CPU: by blocks of scores where there are many of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from relaxjax.ops.nn import attending
from relaxjax.ops.nn.attending import scale_of, scope_of

from .case import known
from .running_attention import (
    Block,
    Running,
    differentiated_as,
    from_keys,
    from_rows,
    rows_of,
    running,
)

Form = Callable[..., Any]

# Blocks pay from so many scores of a head on, of so many queries and keys or more.
_MANY, _FEWEST = 2**22, 512
# How many scores of all heads are computed at a time, for what the caches hold of them.
_AT_A_TIME = 2**21
_LARGEST, _SMALLEST = 512, 128


def block_of(
    queries: Any, keys: Any, stacked: Any, groups: Any, window: int | None
) -> Block | None:
    """The blocks of attention, None where all scores of some queries are computed at once.

    It is `stacked` as many times as there are batches and heads of the keys, each of which is
    shared by `groups` of the query's heads.
    """
    if not known((queries, keys, stacked, groups)):
        return None
    if queries * keys < _MANY or min(queries, keys) < _FEWEST or stacked * groups == 0:
        return None
    size = _LARGEST
    wide = _LARGEST if window is None else window  # a block wider than a window is mostly hidden
    while size > _SMALLEST and (size**2 * stacked > _AT_A_TIME or size > wide):
        size //= 2
    return Block(max(size // groups, _SMALLEST // 4), size)


def attention(query: Any, key: Any, value: Any, bias: Any, **attrs: Any) -> Any:
    """softmax(scale * query @ key^T + bias) @ value, for each batch and head."""
    plain = partial(attending.attention, **attrs, chunked=True)
    by_blocks = partial(scoped, **attrs)
    return _means(plain, by_blocks, query, key, value, bias, window=attrs["window_size"])


def attention_backward(
    output_grad: Any, query: Any, key: Any, value: Any, bias: Any, **attrs: Any
) -> tuple[Any, ...]:
    """The adjoints of query, key, value, and of the bias if it is one of floats."""
    plain = partial(attending.attention_backward, **attrs, chunked=True)
    by_blocks = partial(scoped, **attrs)
    given = output_grad, query, key, value, bias
    return _adjoints(plain, by_blocks, *given, window=attrs["window_size"])


def masked_attention(query: Any, key: Any, value: Any, mask: Any, **attrs: Any) -> Any:
    """softmax(where(mask, scale * query @ key^T, hidden)) @ value, for each batch and head."""
    plain = partial(attending.masked_attention, **attrs)
    return _means(plain, partial(masked, **attrs), query, key, value, mask)


def masked_attention_backward(
    output_grad: Any, query: Any, key: Any, value: Any, mask: Any, **attrs: Any
) -> tuple[Any, ...]:
    """The adjoints of query, key and value. Nothing goes back through what is hidden."""
    plain = partial(attending.masked_attention_backward, **attrs)
    return _adjoints(plain, partial(masked, **attrs), output_grad, query, key, value, mask)


def _means(plain: Form, by_blocks: Form, *given: Any, window: int | None = None) -> Any:
    block = _block_for(given[0], given[1], window)
    if block is None:
        return plain(*given)
    return differentiated_as(plain, partial(result, by_blocks, block))(*given)


def _adjoints(
    plain: Form, by_blocks: Form, *given: Any, window: int | None = None
) -> tuple[Any, ...]:
    block = _block_for(given[1], given[2], window)
    if block is None:
        return tuple(plain(*given))
    return tuple(differentiated_as(plain, partial(adjoints, by_blocks, block))(*given))


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


def _block_for(query: Any, key: Any, window: int | None) -> Block | None:
    stacked, groups = key.shape[0] * key.shape[2], query.shape[2] // max(key.shape[2], 1)
    return block_of(query.shape[1], key.shape[1], stacked, groups, window)


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
