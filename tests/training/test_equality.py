"""A hundred steps of the Trainer against a loop written by hand in JAX and optax.

The model has all that a step may change: parameters, running averages of a batch norm, a random key
that dropout draws from. Both sides start from the same values and the same key.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from parsing import parse_backbone
from small_models import trainer_of

from relaxjax import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD, Adam, MomentumSGD, from_optax

pytestmark = pytest.mark.usefixtures("quickly_compiled")

STEPS, BATCH, SIDE, CHANNELS, CLASSES = 100, 16, 6, 4, 3
KEPT, MOMENTUM, EPSILON = 0.75, 0.1, 1e-5
SHAPES = {
    "kernel": (CHANNELS, 1, 3, 3),
    "scale": (CHANNELS,),
    "shift": (CHANNELS,),
    "weight": (CHANNELS * 16, CLASSES),
    "bias": (CLASSES,),
}

MODEL = """
    normed = R.nn.batch_norm(R.nn.conv2d(x, kernel), scale, shift, mean, var, axis=1)
    hidden = R.tanh(normed[0])
    thin = R.nn.dropout(R.reshape(hidden, (16, 64)), rate=0.25)
    out = R.add(R.matmul(thin[0], weight), bias)
    new_mean, new_var = normed[1], normed[2]
    return out, new_mean, new_var
"""


def plain_loss(params: Any, states: Any, x: Any, labels: Any) -> Any:
    """The same model as one writes it in JAX: the loss, and the new states."""
    y = lax.conv(x, params["kernel"], (1, 1), "VALID")
    mean, var = jnp.mean(y, (0, 2, 3)), jnp.var(y, (0, 2, 3))
    wide_mean, wide_var, scale, shift = (
        parameter[None, :, None, None]
        for parameter in (mean, var, params["scale"], params["shift"])
    )
    hidden = jnp.tanh((y - wide_mean) / jnp.sqrt(wide_var + EPSILON) * scale + shift)
    kept = jax.random.bernoulli(jax.random.fold_in(states["key"], 0), KEPT, (BATCH, CHANNELS * 16))
    thin = jnp.where(kept, hidden.reshape(BATCH, -1) / KEPT, 0.0)
    scores = thin @ params["weight"] + params["bias"][None]
    loss = optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()
    new_states = {
        "mean": (1 - MOMENTUM) * states["mean"] + MOMENTUM * mean,
        "var": (1 - MOMENTUM) * states["var"] + MOMENTUM * var,
        "key": jax.random.fold_in(states["key"], 1),
    }
    return loss, new_states


def by_hand(tx: Any, params: Any, states: Any, data: Any) -> tuple[Any, Any, list[Any]]:
    @jax.jit
    def step(params: Any, states: Any, opt: Any, x: Any, labels: Any) -> Any:
        gradient = jax.value_and_grad(plain_loss, has_aux=True)
        (loss, states), grads = gradient(params, states, x, labels)
        updates, opt = tx.update(grads, opt, params)
        return optax.apply_updates(params, updates), states, opt, loss

    opt, losses = tx.init(params), []
    with jax.numpy_dtype_promotion("standard"):  # optax's adam mixes dtypes
        for x, labels in data:
            params, states, opt, loss = step(params, states, opt, x, labels)
            losses.append(loss)
    return params, states, losses


def batches() -> list[tuple[Any, Any]]:
    """Random images, and the classes that a random linear map gives them."""
    rng = np.random.default_rng(0)
    teacher = rng.normal(size=(SIDE * SIDE, CLASSES))
    images = rng.uniform(size=(STEPS, BATCH, 1, SIDE, SIDE)).astype("float32")
    labels = ((images.reshape(STEPS, BATCH, -1) - 0.5) @ teacher).argmax(-1).astype("int32")
    return list(zip(images, labels, strict=True))


def start() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    # Around 1, since numbers near zero would be small differences of large ones, of fewer digits.
    params = {name: 1 + 0.3 * rng.normal(size=shape) for name, shape in SHAPES.items()}
    states = {"mean": np.zeros(CHANNELS), "var": np.ones(CHANNELS)}
    params, states = (
        {name: array.astype("float32") for name, array in arrays.items()}
        for arrays in (params, states)
    )
    return params, states


def schedule(rate: float) -> Any:
    return optax.warmup_cosine_decay_schedule(0.0, rate, 10, STEPS)


ADAMW = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(schedule(0.01), weight_decay=0.05))


def assert_close(found: Any, expected: Any) -> None:
    """Equal up to a millionth of the largest entry of each array."""
    chex.assert_trees_all_equal_shapes_and_dtypes(found, expected)
    scale = jax.tree.map(lambda array: jnp.abs(array).max(), expected)
    scaled = (jax.tree.map(lambda a, b: a / b, arrays, scale) for arrays in (found, expected))
    chex.assert_trees_all_close(*scaled, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(0.05), optax.sgd(0.05)),
        (MomentumSGD(0.01, 0.9), optax.sgd(0.01, 0.9)),
        (Adam(0.005), optax.adam(0.005)),
        (from_optax(ADAMW), ADAMW),
    ],
    ids=["SGD", "Momentum", "Adam", "AdamW with schedule and clipping"],
)
def test_a_hundred_steps_are_those_of_a_loop_by_hand(ours: Any, theirs: Any) -> None:
    states = {"mean": (CHANNELS,), "var": (CHANNELS,)}
    shapes = {"x": (16, 1, 6, 6), **SHAPES, **states}
    model = parse_backbone(MODEL, param_num=5, state_num=2, **shapes)
    loss_args = [TensorType((BATCH, CLASSES), "float32"), TensorType((BATCH,), "int32")]
    trainer = trainer_of(model, CrossEntropyLoss(), ours, *loss_args)
    params, states = start()
    trainer.load_params(params)
    trainer.load_states({**states, "key": jax.random.key(7)})
    data = batches()
    losses = [trainer.update(x, labels) for x, labels in data]
    expected = by_hand(theirs, params, {**states, "key": jax.random.key(7)}, data)
    found = {**trainer.export_params(), **trainer.export_states()}
    wanted = {**expected[0], **expected[1]}
    assert jnp.array_equal(found.pop("key"), wanted.pop("key"))
    assert_close(
        {**found, "losses": jnp.stack(losses)}, {**wanted, "losses": jnp.stack(expected[2])}
    )
