"""Functions written in JAX that only look like what is raised: they are left as they are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from layers_in_jax import IMAGE, LABELS, ROWS, SEQUENCE, VOLUME, conv, drawn, pooled, raised
from same_results import calls_of

pytestmark = pytest.mark.usefixtures("ranks_promote")


def by_row_maximum(x: Any) -> Any:
    """The largest element of each column is taken off, and the sum is of each row."""
    powers = jnp.exp(x - jnp.max(x, 0, keepdims=True))
    return powers / jnp.sum(powers, 1, keepdims=True)


def by_turned_maximum(x: Any) -> Any:
    """The largest numbers of the columns of `x`, which are the rows here."""
    powers = jnp.exp(x.T - jnp.max(x, 0, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def crossed_norm(x: Any) -> Any:
    """The mean is of rows and the variance of columns."""
    mean, var = jnp.mean(x, 1, keepdims=True), jnp.var(x, 0, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-3)


def turned_norm(x: Any) -> Any:
    """The statistics of columns are laid along rows."""
    mean, var = jnp.mean(x, 0)[:, None], jnp.var(x, 0)[:, None]
    return (x - mean) * lax.rsqrt(var + 1e-3)


def unbiased_norm(x: Any) -> Any:
    mean, var = jnp.mean(x, 1, keepdims=True), jnp.var(x, 1, keepdims=True, ddof=1)
    return (x - mean) * lax.rsqrt(var + 1e-3)


def seeing(mask: Any, hidden: float = -np.inf) -> Callable[..., Any]:
    def function(q: Any) -> Any:
        scores = jnp.where(mask, jnp.einsum("bqhd,bkhd->bhqk", q, q), hidden)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), q)

    return function


def clipped(x: Any) -> Any:
    picked = jnp.take_along_axis(x, jnp.asarray(LABELS)[:, None], -1, mode="clip")
    return jax.nn.logsumexp(x, -1, keepdims=True) - picked


def filled(x: Any) -> Any:
    places = jnp.asarray(LABELS)[:, None]
    return -jnp.take_along_axis(jax.nn.log_softmax(x), places, -1, mode="fill", fill_value=0.0)


def by_one_of_several(x: Any) -> Any:
    """What is taken off is one of three tensors, by their numbers."""
    powers = jnp.exp(x - lax.select_n(jnp.zeros(x.shape, jnp.int32), x * 2, x * 3, x))
    return powers / jnp.sum(powers, 1, keepdims=True)


@jax.custom_jvp
def leaking_backward(x: Any) -> Any:
    """A relu with the derivative of another function."""
    return jnp.maximum(x, 0)


@leaking_backward.defjvp
def _leaking_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    return leaking_backward(x), lax.select(x > 0, tangent, 0.1 * tangent)


def seeing_in_8_bits(q: Any) -> Any:
    """Numbers that begin again from below after 127."""
    shape = (q.shape[1], q.shape[1])
    rows, columns = (lax.broadcasted_iota(jnp.int8, shape, axis) for axis in (0, 1))
    return seeing(rows >= columns)(q)


def in_columns(x: Any) -> Any:
    """What is picked is taken off in another order."""
    scores = x.reshape(2, 2, 5)
    picked = jnp.take_along_axis(scores, np.array([[[0], [1]], [[2], [0]]]), -1)
    return jax.nn.logsumexp(scores, -1) - lax.reshape(picked, (2, 2), (1, 0, 2))


LOWER = np.tril(np.ones((6, 6), bool))
HIGHEST = lax.Precision.HIGHEST

# What looks alike but is something else, and the operators that must not be there.
KEPT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "precise convolution": (
        lambda x, w: conv(x, w, precision=HIGHEST),
        (IMAGE, drawn(2, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "cropping convolution": (
        lambda x, w: conv(x, w, padding=((-1, 0), (0, 0))),
        (IMAGE, drawn(2, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "kernel that does not fit": (
        lambda x, w: conv(x, w, padding="VALID"),
        (IMAGE, drawn(7, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "window that does not fit": (
        lambda x: pooled(x, 0.0, lax.add, size=7),
        (IMAGE,),
        ["nn.avg_pool2d"],
    ),
    "batches in groups": (
        lambda x, w: conv(x, w, batch_group_count=2),
        (IMAGE, drawn(2, 2, 4, 4)),
        ["nn.conv2d"],
    ),
    "windows along all axes": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
        (ROWS,),
        ["nn.avg_pool1d"],
    ),
    "spread windows": (
        lambda x: lax.reduce_window(
            x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", base_dilation=(1, 2, 1, 1)
        ),
        (IMAGE,),
        ["nn.avg_pool2d"],
    ),
    "precise product": (
        lambda x, w: jnp.matmul(x, w, precision=HIGHEST),
        (ROWS, drawn(5, 2)),
        ["matmul"],
    ),
    "stack of products": (lambda x, y: x @ y, (VOLUME[0], VOLUME[1].swapaxes(-1, -2)), ["matmul"]),
    "maximum of columns": (by_row_maximum, (ROWS,), ["nn.softmax"]),
    "crossed statistics": (crossed_norm, (ROWS,), ["nn.layer_norm"]),
    "turned statistics": (turned_norm, (drawn(4, 4),), ["nn.layer_norm"]),
    "unbiased variance": (unbiased_norm, (ROWS,), ["nn.layer_norm"]),
    "labels filled": (filled, (ROWS,), ["nn.softmax_nll_loss"]),
    "labels of some rows": (
        lambda x: jax.nn.log_softmax(x)[jnp.arange(2), LABELS[:2]],
        (ROWS,),
        ["nn.softmax_nll_loss"],
    ),
    "one of several taken off": (by_one_of_several, (ROWS,), ["nn.softmax"]),
    "labels in columns": (in_columns, (drawn(4, 5),), ["nn.softmax_nll_loss"]),
    "labels clipped": (clipped, (ROWS,), ["nn.softmax_nll_loss"]),
    "other derivative": (leaking_backward, (ROWS,), ["nn.relu"]),
    "other gelu": (lambda x: 0.5 * x * lax.erfc(-x), (ROWS,), ["nn.gelu"]),
    "other tanh": (
        lambda x: 0.5 * x * (1 + jnp.tanh(0.8 * (x + 0.04 * x**3))),
        (ROWS,),
        ["nn.gelu_tanh"],
    ),
    "seeing all before": (
        seeing(np.tril(LOWER, -1) | np.eye(6, dtype=bool)[::-1]),
        (SEQUENCE,),
        ["nn.attention"],
    ),
    "a maximum in turn": (by_turned_maximum, (drawn(4, 4),), ["nn.softmax"]),
    "seeing ahead": (seeing(LOWER.T), (SEQUENCE,), ["nn.attention"]),
    "counting in 8 bits": (seeing_in_8_bits, (drawn(2, 130, 1, 2),), ["nn.attention"]),
    "barely hidden": (seeing(LOWER, -3.0), (SEQUENCE,), ["nn.attention", "nn.masked_attention"]),
    "hidden so that nothing is left": (seeing(LOWER.T), (SEQUENCE,), ["nn.masked_attention"]),
}


@pytest.mark.parametrize("shape", [(), (5,), (2, 2), (2, 5), (5, 2, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_relu_of_any_size_is_raised_but_not_what_is_like_it(
    shape: tuple[int, ...], dtype: str
) -> None:
    """That of JAX is read once for each rank and dtype."""
    given = jax.ShapeDtypeStruct(shape, dtype)
    assert calls_of(raised(jax.nn.relu, given), "nn.relu")
    assert not calls_of(raised(leaking_backward, given), "nn.relu")


@pytest.mark.parametrize("name", KEPT)
def test_what_only_looks_alike_is_left(name: str) -> None:
    function, args, operators = KEPT[name]
    module = raised(function, *args)
    assert not [operator for operator in operators if calls_of(module, operator)]
