"""Attention whose scores have numbers added to them, as positions do, and masks of numbers."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.passes import raising_report

rng = np.random.default_rng(0)
Q, K, V = (rng.normal(size=(2, n, 4, 8)).astype("float32") for n in (6, 6, 6))
SEEN = rng.random((2, 6)) < 0.7
SEEN[0] = False  # where no key counts
SLOPES = (2.0 ** -np.arange(1.0, 5.0)).astype("float32")


def attended(bias: Any, causal: bool = False) -> Callable[..., Any]:
    """Attention with what `bias` gives for the keys that are seen, and for a table."""

    def loss(q: Any, k: Any, v: Any, seen: Any, table: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4.0 + bias(seen[:, None, None, :], table)
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones((1, 1, 6, 6), bool)), scores, -1e30)
        out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
        return jnp.sum(jnp.sin(out))

    return loss


def distances(seen: Any, table: Any) -> Any:
    places = jnp.arange(6)
    far = jnp.abs(places[:, None] - places[None, :]).astype("float32")
    return -SLOPES[None, :, None, None] * far[None, None]


TABLE = jnp.ones((1, 4, 6, 6), "float32")
RAISED: dict[str, tuple[Any, bool]] = {
    "hidden by a number": (lambda seen, table: jnp.where(seen, 0.0, -1e9), False),
    "by a product": (
        lambda seen, table: (1.0 - seen.astype("float32")) * float(np.finfo("float32").min),
        False,
    ),
    "by distance": (distances, False),
    "by distance, causal": (distances, True),
    "of constants": (lambda seen, table: jnp.asarray(-np.eye(6, dtype="f"))[None, None], False),
}
LEFT: dict[str, Any] = {
    "minus infinity": lambda seen, table: jnp.where(seen, 0.0, -jnp.inf),
    "of a parameter": lambda seen, table: table,
    "too large a product": lambda seen, table: jnp.where(seen, 0.0, -1e30) * 1e10,
}


def raised(loss: Callable[..., Any], given: Any) -> list[str]:
    lines = raising_report(relaxjax.from_jax(loss, *given)).lines
    return [name for line in lines for name in line.raised]


@pytest.mark.parametrize("name", RAISED)
def test_numbers_that_are_seen_to_be_finite(name: str) -> None:
    bias, causal = RAISED[name]
    loss, given = attended(bias, causal), (Q, K, V, SEEN, TABLE)
    assert "relax.nn.attention_bias" in raised(loss, given)
    found = relaxjax.value_and_grad(loss, (0, 1, 2))(*given)
    wanted = jax.value_and_grad(loss, (0, 1, 2))(*given)
    chex.assert_trees_all_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LEFT)
def test_others_stay_as_they_are(name: str) -> None:
    """Where a query has no finite score, JAX gives NaN, and the operator 0."""
    loss, given = attended(LEFT[name]), (Q, K, V, SEEN, TABLE)
    assert "relax.nn.attention_bias" not in raised(loss, given)
    found = relaxjax.value_and_grad(loss, (0, 1, 2, 4))(*given)
    wanted = jax.value_and_grad(loss, (0, 1, 2, 4))(*given)
    chex.assert_trees_all_close(found, wanted, rtol=1e-4, atol=1e-5)
