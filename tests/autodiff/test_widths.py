"""Losses that compute in 64 bits, where JAX around them does not."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import relaxjax

X = np.linspace(0.5, 2.0, 5, dtype="float32")


def loss(x: Any, scale: Any = 1.0) -> Any:
    """In 32 bits nothing is left of `x`."""
    with jax.enable_x64(True):
        wide = x.astype(jnp.float64)
        left = jnp.sum(jnp.sin(wide) + ((wide**2 + 1e10) - 1e10))
    return left.astype(jnp.float32) * scale


@pytest.mark.parametrize("around", [jax.jit, lambda function: function], ids=["jit", "by itself"])
def test_values_and_gradients(around: Any) -> None:
    found, expected = (around(m.value_and_grad(loss))(X) for m in (relaxjax, jax))
    chex.assert_trees_all_close(found, expected, rtol=1e-6)
    chex.assert_trees_all_equal_dtypes(found, expected)


def test_a_step() -> None:
    init, step = relaxjax.train_step(loss, optax.sgd(0.5))
    state, value = step(init(X), np.float32(2.0))
    expected, gradient = jax.value_and_grad(loss)(X, np.float32(2.0))
    chex.assert_trees_all_close((value, state.params), (expected, X - 0.5 * gradient), rtol=1e-6)


def test_a_program_for_another_platform() -> None:
    exported = jax.export.export(jax.jit(relaxjax.grad(loss)), platforms=["cpu", "cuda"])(X)
    chex.assert_trees_all_close(exported.call(X), jax.grad(loss)(X), rtol=1e-6)


@jax.custom_jvp
def by_tangents(x: Any) -> Any:
    return (x**2 + 1e10) - 1e10


@by_tangents.defjvp
def _tangent(values: Any, tangents: Any) -> Any:
    (x,), (dx,) = values, tangents
    return by_tangents(x), ((3 * x + 1e10) - 1e10) * dx


@jax.custom_vjp
def by_cotangents(x: Any) -> Any:
    return (x**2 + 1e10) - 1e10


by_cotangents.defvjp(
    lambda x: (by_cotangents(x), 3 * x), lambda slope, g: (((slope + 1e10) - 1e10) * g,)
)


@pytest.mark.parametrize(
    "function", [by_tangents, by_cotangents, lambda x: jnp.linalg.pinv(jnp.diag(x))]
)
def test_functions_with_rules(function: Any) -> None:
    """Their rules were traced in 32 bits, which was an error of JAX's."""

    def wide(x: Any) -> Any:
        with jax.enable_x64(True):
            return jnp.sum(jnp.sin(function(x.astype(jnp.float64)))).astype(jnp.float32)

    with jax.enable_x64(True):  # JAX goes back by the setting around
        expected = jax.value_and_grad(wide)(X)
    found = jax.jit(relaxjax.value_and_grad(wide))(X)
    chex.assert_trees_all_close(found, expected, rtol=1e-6)
    chex.assert_trees_all_equal_dtypes(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_state_of_an_optimizer_is_as_wide_as_the_user_has_it(dtype: str) -> None:
    """Muon holds coefficients that are of 64 bits where JAX has them."""
    tx = optax.contrib.muon(0.01)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        params = {"w": jnp.linspace(-1.0, 1.0, 6, dtype=dtype).reshape(3, 2)}
        init, step = relaxjax.train_step(lambda p, b: jnp.sum(jnp.sin(b @ p["w"])), tx)
        batch = jnp.ones((2, 3), dtype)
        found, _ = step(init(params), batch)
        gradients = jax.grad(lambda p: jnp.sum(jnp.sin(batch @ p["w"])))(params)
        updates, state = tx.update(gradients, tx.init(params), params)
        expected = optax.apply_updates(params, updates)
        chex.assert_trees_all_equal_dtypes(found.opt_state, state)
        chex.assert_trees_all_close(
            found.params, expected, rtol=1e-2 if dtype != "float32" else 1e-5
        )
