"""A step of the trainer against the same step written by hand in JAX and optax."""

import re
from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import batch, classifier, trained_by_optax

from relaxjax.optim import SGD, Adam, MomentumSGD

STEPS = 20


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(0.1), optax.sgd(0.1)),
        (SGD(0.1, 0.02), optax.chain(optax.add_decayed_weights(0.02), optax.sgd(0.1))),
        (MomentumSGD(0.05, 0.9), optax.sgd(0.05, 0.9)),
        (MomentumSGD(0.05, 0.9, nesterov=True), optax.sgd(0.05, 0.9, nesterov=True)),
        (Adam(0.01), optax.adam(0.01)),
        (
            Adam(0.01, (0.8, 0.95), 1e-6, 0.02),
            optax.chain(optax.add_decayed_weights(0.02), optax.adam(0.01, 0.8, 0.95, 1e-6)),
        ),
    ],
    ids=["sgd", "sgd with decay", "momentum", "nesterov", "adam", "adam with decay"],
)
def test_twenty_steps_equal_those_of_jax_and_optax(
    ours: Any, theirs: optax.GradientTransformation
) -> None:
    trainer = classifier(ours)
    trainer.xavier_uniform_init_params(seed=1)
    params = {name: jnp.asarray(value) for name, value in trainer.export_params().items()}
    losses = [float(trainer.update(*batch(seed))) for seed in range(STEPS)]
    expected_params, expected_losses = trained_by_optax(theirs, params, STEPS)
    chex.assert_trees_all_close(losses, expected_losses, rtol=1e-6, atol=1e-6)
    chex.assert_trees_all_close(trainer.export_params(), expected_params, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "targets"), [((2, 8, 5), (3, 8)), ((3, 8, 5), (2, 8)), ((2, 8, 5), ())]
)
def test_stacks_of_inputs_and_of_targets_have_as_many_batches(
    inputs: tuple[int, ...], targets: tuple[int, ...]
) -> None:
    """The last targets would be those of several batches."""
    match = f"as many of each input and target, but `x` is of shape {inputs}, `targets` is of sha"
    trainer = classifier()
    before = trainer.export_params()
    with pytest.raises(ValueError, match=re.escape(match)):
        trainer.update_many(np.ones(inputs, "float32"), np.ones(targets, "int32"))
    chex.assert_trees_all_equal(trainer.export_params(), before)


def test_steps_are_the_same_bit_for_bit_however_they_are_spread_over_calls() -> None:
    data = [batch(seed) for seed in range(7)]
    inputs, targets = (np.stack(parts) for parts in zip(*data, strict=True))
    ends = []
    for spread in ((7,), (1, 1, 5), (3, 4), (1,) * 7):
        trainer, made = classifier(Adam(0.01)), 0
        losses: list[Any] = []
        trainer.xavier_uniform_init_params(seed=1)
        for count in spread:
            x, labels = (np.roll(array, -made, 0) for array in (inputs, targets))
            found = np.asarray(trainer.update_many(x, labels, count))
            assert not found[count:].any()
            losses.extend(found[:count])
            made += count
        ends.append([*losses, *map(np.asarray, trainer.export_params().values())])
    for end in ends[1:]:
        chex.assert_trees_all_equal(end, ends[0])
