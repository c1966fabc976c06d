"""Where JAX searches for NaN, what is written as such is none, and what computes one is named."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import relaxjax

W, X = jnp.ones((3, 2)), jnp.arange(12.0).reshape(4, 3)


def normed(w: Any, x: Any) -> Any:
    """`jnp.var` has a branch for no values, where NaN is written."""
    h = x @ w
    return jnp.mean((h - h.mean(0, keepdims=True)) * jax.lax.rsqrt(h.var(0, keepdims=True) + 1e-3))


def bad(w: Any, x: Any) -> Any:
    return normed(w, x) * jnp.log(-jnp.sum(x @ w))


def test_a_nan_that_is_written_is_no_fault() -> None:
    wanted = relaxjax.value_and_grad(normed)(W, X)
    with jax.debug_nans(True):
        found = relaxjax.value_and_grad(normed)(W, X)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, found, wanted))


def test_an_infinity_that_is_written_is_no_fault() -> None:
    def masked(w: Any) -> Any:
        return jnp.sum(jnp.where(w > 0, w, jnp.exp(jnp.full_like(w, -jnp.inf))))

    with jax.debug_infs(True):
        value, _ = relaxjax.value_and_grad(masked)(W)
    assert value == 6


@pytest.mark.parametrize("around", [jax.jit, lambda function: function])
def test_what_computes_a_nan_is_named(around: Any) -> None:
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"\(nan\).* in log"):
        around(relaxjax.value_and_grad(bad))(W, X)
