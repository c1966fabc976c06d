"""What suppression of boxes is made of: overlap, greedy selection, moving rows to the front."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

Suppress = Callable[[Any, Any, Any], tuple[Any, Any]]


def overlap(boxes: Any, others: Any) -> Any:
    """Intersection over union of boxes, each given by two opposite corners in its last axis."""
    low, high = _corners(boxes)
    other_low, other_high = _corners(others)
    extent = jnp.minimum(high, other_high) - jnp.maximum(low, other_low)
    shared = jnp.prod(jnp.maximum(extent, jnp.zeros_like(extent)), -1)
    union = jnp.prod(high - low, -1) + jnp.prod(other_high - other_low, -1) - shared
    empty = union <= 0
    return jnp.where(empty, jnp.zeros_like(union), shared / jnp.where(empty, 1, union))


def _corners(boxes: Any) -> tuple[Any, Any]:
    one, other = boxes[..., :2], boxes[..., 2:]
    return jnp.minimum(one, other), jnp.maximum(one, other)


def select(scores: Any, alive: Any, limit: Any, suppress: Suppress) -> tuple[Any, Any]:
    """Pick the best that is left, let it suppress others, and so on.

    `suppress(best, scores, alive)` gives the scores and who is left. The result is the places of
    what was picked, in order and at most `limit` of them, and their number. A round costs one pass
    over the boxes and there are as many rounds as picks, so no table of all pairs is needed.
    """
    places = jnp.arange(scores.shape[0], dtype=jnp.int32)
    lowest = jnp.asarray(-jnp.inf, scores.dtype)

    def more(state: Any) -> Any:
        _, alive, _, count = state
        return jnp.any(alive) & (count < limit)

    def pick(state: Any) -> Any:
        scores, alive, picks, count = state
        best = jnp.argmax(jnp.where(alive, scores, lowest)).astype(jnp.int32)
        scores, alive = suppress(best, scores, alive & (places != best))
        return scores, alive, picks.at[count].set(best), count + 1

    start = (scores, alive, jnp.zeros_like(places), jnp.zeros((), jnp.int32))
    if scores.shape[0] == 0:
        return start[2:]  # of no boxes there is no best one to trace the search of
    _, _, picks, count = lax.while_loop(more, pick, start)
    return picks, count


def front(valid: Any) -> tuple[Any, Any]:
    """The places of the true elements, in order, and their number; what follows is 0."""
    places = jnp.arange(valid.shape[0], dtype=jnp.int32)
    targets = jnp.where(valid, jnp.cumsum(valid, dtype=jnp.int32) - 1, valid.shape[0])
    moved = jnp.zeros_like(places).at[targets].set(places, mode="drop")
    return moved, jnp.sum(valid, dtype=jnp.int32)


def where_rows(kept: Any, rows: Any, value: float) -> Any:
    """The rows that are kept, `value` in all others."""
    fill = jnp.asarray(value).astype(rows.dtype)
    return jnp.where(jnp.expand_dims(kept, -1), rows, jnp.broadcast_to(fill, rows.shape))
