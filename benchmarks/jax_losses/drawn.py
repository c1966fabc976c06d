"""Parameters and data of losses, drawn at random, and what their layers have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn


@dataclass(frozen=True)
class Case:
    """A loss `loss(params, *inputs)` as its author would write it, with what it takes.

    With `has_aux` it returns something else beside its value.
    """

    loss: Callable[..., Any]
    params: Any
    inputs: tuple[Any, ...]
    has_aux: bool = False


class Draws:
    """Draws arrays, the same ones each time."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        return jnp.asarray(scale * self.random.normal(size=shape), "float32")

    def weight(self, *shape: int, inputs: int | None = None) -> Any:
        """A weight whose products with normal numbers are normal; the last axis is of outputs."""
        return self.normal(*shape, scale=(inputs or np.prod(shape[:-1])) ** -0.5)

    def ids(self, bound: int, *shape: int) -> Any:
        return jnp.asarray(self.random.integers(0, bound, shape), "int32")


def cross_entropy(logits: Any, classes: Any) -> Any:
    picked = jnp.take_along_axis(nn.log_softmax(logits), classes[..., None], -1)
    return -picked.mean()


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def convolved(x: Any, kernel: Any, stride: int = 1, groups: int = 1, dilation: int = 1) -> Any:
    """A convolution of data with channels last; one that is dilated sees no later data."""
    letters = {3: "W", 4: "HW", 5: "DHW"}[x.ndim]
    layouts = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    spatial = len(letters)
    padding = [(dilation, 0)] if dilation > 1 else "SAME"
    return lax.conv_general_dilated(
        x,
        kernel,
        (stride,) * spatial,
        padding,
        rhs_dilation=(dilation,) * spatial,
        dimension_numbers=layouts,
        feature_group_count=groups,
    )


def attention(x: Any, block: Any, heads: int, causal: bool = False) -> Any:
    """Attention of `x` to itself, by the weights `qkv` and `out` of a block."""
    batch, length, width = x.shape
    split = (x @ block["qkv"]).reshape(batch, length, 3 * heads, width // heads)
    queries, keys, values = jnp.split(split, 3, 2)
    scores = jnp.einsum("bthd,bshd->bhts", queries, keys) / np.sqrt(width // heads)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhts,bshd->bthd", nn.softmax(scores), values)
    return mixed.reshape(batch, length, width) @ block["out"]


def block_params(draw: Draws, width: int) -> Any:
    return {
        "qkv": draw.weight(width, 3 * width),
        "out": draw.weight(width, width),
        "up": draw.weight(width, 4 * width),
        "down": draw.weight(4 * width, width),
        "norms": [(jnp.ones(width), jnp.zeros(width)) for _ in range(2)],
    }


def block_of_transformer(x: Any, block: Any, heads: int, causal: bool = False) -> Any:
    first, second = block["norms"]
    x = x + attention(layer_norm(x, *first), block, heads, causal)
    return x + nn.gelu(layer_norm(x, *second) @ block["up"]) @ block["down"]
