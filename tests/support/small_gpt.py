"""A small language model in plain JAX: blocks of attention and a wide layer, without biases."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def gpt_params(draw: Callable[..., Any], blocks: int, width: int, words: int) -> Any:
    """The embedding, which is the last layer too, and the blocks."""

    def block() -> dict[str, Any]:
        return {
            "attend": draw(width, 3 * width),
            "project": draw(width, width),
            "widen": draw(width, 4 * width),
            "narrow": draw(4 * width, width),
        }

    return {"table": draw(words, width), "blocks": [block() for _ in range(blocks)]}


def gpt_scores(params: Any, ids: Any) -> Any:
    """The scores of the words that follow."""
    length, width = ids.shape[-1], params["table"].shape[-1]
    x = params["table"][ids]
    for p in params["blocks"]:
        q, k, v = jnp.split(_normed(x) @ p["attend"], 3, -1)
        scores = jnp.where(jnp.tri(length, dtype=bool), q @ k.mT / width**0.5, -1e30)
        x = x + jax.nn.softmax(scores) @ v @ p["project"]
        x = x + jax.nn.gelu(_normed(x) @ p["widen"]) @ p["narrow"]
    return _normed(x) @ params["table"].T


def _normed(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
