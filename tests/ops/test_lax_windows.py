"""Reductions of windows by functions that are no operators of the IR."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_reading import read_function

import relaxjax

X = np.random.default_rng(0).uniform(size=(5, 6)).astype("float32")
WINDOWS: dict[str, dict[str, Any]] = {
    "side by side": {"window_strides": (2, 3)},
    "overlapping": {"window_strides": (1, 1), "padding": "SAME"},
    "padded": {"padding": ((1, 0), (-1, 2))},
    "dilated": {"window_dilation": (2, 2), "base_dilation": (1, 3), "padding": ((0, 2), (1, 0))},
    "too large": {"window_dilation": (9, 1)},
    "of nothing": {"padding": ((0, -5), (0, 0))},
}


def joined(a: Any, b: Any) -> Any:
    """(1 + a) (1 + b) - 1: in any order the same, and 0 changes nothing."""
    return a + b + a * b


@jax.custom_jvp
def joined_by_rule(a: Any, b: Any) -> Any:
    return joined(a, b)


@joined_by_rule.defjvp
def _joined_tangent(values: Any, tangents: Any) -> Any:
    (a, b), (da, db) = values, tangents
    return joined_by_rule(a, b), (1 + b) * da + (1 + a) * db + a * b * (da + db)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_reduced_by_any_function(name: str) -> None:
    """They were refused, and JAX has no gradient of them."""

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.sin(lax.reduce_window(x, 0.0, joined, (2, 3), **WINDOWS[name])))

    def by_logarithms(x: Any) -> Any:
        found = lax.reduce_window(jnp.log1p(x), 0.0, lax.add, (2, 3), **WINDOWS[name])
        return jnp.sum(jnp.sin(jnp.expm1(found)))

    found = jax.jit(relaxjax.value_and_grad(loss))(X)
    chex.assert_trees_all_close(found, jax.value_and_grad(by_logarithms)(X), rtol=1e-4, atol=1e-6)
    chex.assert_trees_all_close(found[0], loss(X), rtol=1e-5)


def test_the_function_may_have_a_derivative_of_its_own() -> None:
    def windows_of_two(x: Any) -> Any:
        return jnp.sum(lax.reduce_window(x, 0.0, joined_by_rule, (1, 2)))

    def pairs(x: Any) -> Any:
        return jnp.sum(joined_by_rule(x[:, :-1], x[:, 1:]))

    found = relaxjax.value_and_grad(windows_of_two)(X)
    chex.assert_trees_all_close(found, jax.value_and_grad(pairs)(X), rtol=1e-5)


def test_windows_of_several_arrays_are_reduced_together() -> None:
    def loss(x: Any, y: Any) -> Any:
        def combine(left: Any, right: Any) -> Any:
            return left[0] + right[0], left[1] + right[1]

        sums = lax.reduce_window((x, y), (np.float32(0), np.float32(0)), combine, (3,), (2,))
        return jnp.sum(sums[0] * sums[1])

    def one_by_one(x: Any, y: Any) -> Any:
        first, second = (lax.reduce_window(z, 0.0, lax.add, (3,), (2,)) for z in (x, y))
        return jnp.sum(first * second)

    both = (0, 1)
    found = relaxjax.value_and_grad(loss, both)(X[0], X[1])
    expected = jax.value_and_grad(one_by_one, both)(X[0], X[1])
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("combine", "start", "operator"),
    [
        (lax.add, 0, "L.reduce_window_sum"),
        (lax.max, -np.inf, "L.reduce_window_max"),
        (lax.min, np.inf, "L.reduce_window_min"),
    ],
)
def test_a_start_that_is_an_array_of_the_loss_is_a_number(
    combine: Any, start: float, operator: str
) -> None:
    """JAX's gradient of such a loss without `jax.jit` was there, and ours was refused."""

    def loss(x: Any) -> Any:
        found = lax.reduce_window(x, jnp.float32(start), combine, (2, 2), (2, 2), "SAME")
        return jnp.sum(found**2)

    assert operator in str(read_function(loss, X))
    expected = jax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss)(X), expected, rtol=1e-6)


def test_a_start_may_be_any_value() -> None:
    def loss(x: Any, start: Any) -> Any:
        return jnp.sum(lax.reduce_window(x, start, lax.mul, (2, 1)) ** 2)

    def products(x: Any, start: Any) -> Any:
        return jnp.sum((start * x[:-1] * x[1:]) ** 2)

    given = X, np.float32(2)
    found = relaxjax.value_and_grad(loss, (0, 1))(*given)
    expected = jax.value_and_grad(products, (0, 1))(*given)
    chex.assert_trees_all_close(found, expected, rtol=1e-5)
