"""Values that a loss computes twice: sums of their adjoints keep the bits that they have in JAX."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import relaxjax

W = np.linspace(0.5, 1.0, 4, dtype="float32")
X = np.linspace(0.5, 1.5, 240, dtype="float32").reshape(60, 4)


def loss(w: Any, dtype: Any) -> Any:
    """Casts `w` anew for each use, as layers with parameters in float32 do."""
    products = (w.astype(dtype) * x.astype(dtype) for x in X)
    return sum(jnp.sum(product.astype(jnp.float32)) for product in products)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("around", [jax.jit, lambda function: function], ids=["jit", "by itself"])
def test_adjoints_of_casts_are_added_up_in_the_wider_dtype(around: Any, dtype: str) -> None:
    found, expected = (around(m.grad(lambda w: loss(w, dtype)))(W) for m in (relaxjax, jax))
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


def test_adjoints_of_complex_casts_are_added_up_in_the_wider_dtype() -> None:
    def narrow(w: Any) -> Any:
        products = (w.astype("complex64") * x.astype("complex64") for x in X)
        return sum(jnp.sum(jnp.real(product).astype("float64")) for product in products)

    with jax.enable_x64(True):
        wide = W.astype("complex128") * (1 + 0.5j)
        found, expected = (m.grad(narrow)(wide) for m in (relaxjax, jax))
        chex.assert_trees_all_close(found, expected, rtol=1e-9)


def test_adjoints_of_casts_in_a_step() -> None:
    init, step = relaxjax.train_step(lambda w, x: loss(w, "bfloat16") * x, optax.sgd(0.5))
    state, _ = step(init(W), np.float32(1.0))
    expected = W - 0.5 * jax.grad(lambda w: loss(w, "bfloat16"))(W)
    chex.assert_trees_all_close(state.params, expected, rtol=1e-5)


def test_such_casts_are_shared_behind_the_gradient() -> None:
    module = relaxjax.value_and_grad(lambda w: loss(w, "bfloat16")).module(W)
    assert str(module["loss_adjoint"].script()).count("L.convert_element_type(w,") <= 1
