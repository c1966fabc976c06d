"""Losses in JAX that call functions with derivatives of their own: SetupTrainer keeps these."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import BATCH, CLASSES, Classifier, batch

from relaxjax import SetupTrainer, from_source, to_jax
from relaxjax.ir import IRModule, TensorType, assert_structural_equal
from relaxjax.losses import from_jax
from relaxjax.optim import SGD

SCORES = TensorType((BATCH, CLASSES), "float32")
BACKBONE: IRModule = Classifier  # type: ignore[assignment]  # the decorator makes it a module


@jax.custom_vjp
def rounded(x: jax.Array, count: jax.Array) -> jax.Array:
    return jnp.round(x * count) / count


rounded.defvjp(
    lambda x, count: (rounded(x, count), x), lambda x, g: (g * jnp.cos(x), jnp.zeros(()))
)


@jax.custom_jvp
def train_step(x: jax.Array) -> jax.Array:
    """Its name is one that SetupTrainer needs."""
    return jnp.floor(x)


train_step.defjvp(lambda x, t: (train_step(x[0]), 3 * t[0]))


def in_a_loop(scores: jax.Array, targets: jax.Array) -> Any:
    def step(total: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
        return rounded(total * row, jnp.float32(4)), None

    return jax.lax.scan(step, targets[0], scores)[0]


def system(scores: jax.Array, targets: jax.Array) -> Any:
    matrix = scores.T @ scores + jnp.eye(CLASSES)
    return jnp.linalg.solve(matrix, targets.T)


LOSSES: dict[str, Callable[..., Any]] = {
    "one hot": optax.losses.safe_softmax_cross_entropy,
    "binary": optax.losses.sigmoid_binary_cross_entropy,
    "vjp": lambda x, y: rounded(x, jnp.float32(8)) * y,
    "jvp": lambda x, y: train_step(x) * y,
    "loop": in_a_loop,
    "system": system,
}


@pytest.mark.parametrize("options", [{}, {"legalize": False}, {"memory_policy": "balanced"}])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_jax(name: str, options: dict[str, Any]) -> None:
    def loss(scores: jax.Array, targets: Any) -> jax.Array:
        return jnp.mean(LOSSES[name](scores, targets))

    mod = SetupTrainer(from_jax(loss), SGD(0.1), [SCORES, SCORES], **options)(BACKBONE)
    assert_structural_equal(from_source(mod.script()), mod)
    x, classes = batch(0)
    y = np.eye(CLASSES, dtype="float32")[classes]
    random = np.random.default_rng(0)
    shapes = [(5, 7), (7,), (7, CLASSES), (CLASSES,)]
    params = [np.asarray(random.normal(size=shape), np.float32) for shape in shapes]
    params[2:] = np.zeros_like(params[2]), params[3] * (name != "binary")  # scores of 0: a kink

    def trained(*params: Any) -> jax.Array:
        hidden = jax.nn.relu(x @ params[0] + params[1][None])
        return loss(hidden @ params[2] + params[3][None], y)

    found = to_jax(mod, "backbone_loss_adjoint")(x, *params, y)
    expected = jax.value_and_grad(trained, (0, 1, 2, 3))(*params)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-6)
    chex.assert_trees_all_close(to_jax(mod, "evaluate")(x, *params, y)[0], expected[0], rtol=1e-5)
