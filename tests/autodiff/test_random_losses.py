"""Random losses in JAX: what `value_and_grad` makes of them against what JAX does.

    RELAXJAX_PROGRAMS=2000 python -m pytest tests/autodiff/test_random_losses.py

tries more of them, each time others.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from full import how_many
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from random_losses import Step, loss_of, steps

import relaxjax
from relaxjax.ops.lax import UnsupportedPrimitiveError

PROGRAMS = how_many(2, 200)
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]
TOLERANCE = 2e-5  # relative to the largest number
VECTORS = [jnp.asarray(row, "float32") for row in np.random.default_rng(0).normal(size=(3, 3))]

Derivative = Callable[[Any, Sequence[Step]], Any]


def by_all(mode: Any, recipe: Sequence[Step]) -> Any:
    both = mode.value_and_grad(loss_of(recipe, mode.grad), argnums=(0, 1, 2))
    return jax.jit(both)(*VECTORS)


def by_one_in_rows(mode: Any, recipe: Sequence[Step]) -> Any:
    rows = [jnp.stack([vector, -vector]) for vector in VECTORS]
    both = jax.vmap(mode.value_and_grad(loss_of(recipe), argnums=1), in_axes=(0, 0, None))
    return jax.jit(both)(rows[0], rows[1], VECTORS[2])


def computed_again(mode: Any, recipe: Sequence[Step]) -> Any:
    both = mode.value_and_grad(jax.checkpoint(loss_of(recipe)), argnums=(0, 2))
    return jax.jit(both)(*VECTORS)


def twice(mode: Any, recipe: Sequence[Step]) -> Any:
    gradients = mode.grad(loss_of(recipe), argnums=(0, 1))
    return jax.jit(lambda *at: jax.jvp(gradients, at, at[::-1]))(*VECTORS)


@pytest.mark.usefixtures("quickly_compiled")
def test_random_programs() -> None:
    said = 0

    @settings(max_examples=PROGRAMS, suppress_health_check=CHECKS)
    @given(steps(), st.sampled_from([by_all, by_all, by_one_in_rows, computed_again, twice]))
    def one(recipe: Sequence[Step], derivative: Derivative) -> None:
        nonlocal said
        try:
            expected = derivative(jax, recipe)
        except (NotImplementedError, TypeError):
            reject()  # JAX has no such derivative, as no tangents of functions with a `custom_vjp`
        assume(all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(expected)))
        try:
            found = derivative(relaxjax, recipe)
        except UnsupportedPrimitiveError as error:
            if "go through a lax.cond whose condition jax.vmap maps" not in str(error):
                raise
            reject()
        agree(found, expected)
        said += 1

    one()
    assert said >= PROGRAMS


def agree(found: Any, expected: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        scale = max(1.0, float(np.max(np.abs(other))))
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * scale)
