"""Random keys among the states of a trainer, and arrays of them."""

import re
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from relaxjax import Trainer
from relaxjax.training import Checkpoints, Lines

BATCH = np.ones((2, 3), "float32")
QUIET = Lines(lambda line: None)


def keys(impl: str | None = None) -> Any:
    """One for each head of each layer, as users keep them beside running means."""
    return jax.random.split(jax.random.key(7, impl=impl), (2, 3))


def each(function: Any) -> Any:
    return jax.vmap(jax.vmap(function))


def noisy(params: Any, state: Any, batch: Any) -> Any:
    following = each(lambda key: jax.random.split(key)[0])(state)
    noise = each(jax.random.uniform)(state).sum()
    return jnp.mean((batch @ params) ** 2) * noise, (following, None)


def trainer(state: Any) -> Trainer:
    params = jnp.ones((3, 2), "float32")
    return Trainer.from_jax(noisy, params, optax.adam(0.1), BATCH, model_state=state)


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_an_array_of_keys_goes_on_from_a_checkpoint_where_it_was(
    impl: str, sharded: bool, tmp_path: Path
) -> None:
    whole, first, second = (trainer(keys(impl)) for _ in range(3))
    whole.fit([BATCH] * 4, 2, reporter=QUIET)
    run = Checkpoints(tmp_path, every=2, sharded=sharded)
    first.fit([BATCH] * 4, 1, reporter=QUIET, checkpoints=run)
    second.fit([BATCH] * 4, 2, reporter=QUIET, checkpoints=run, resume=True)
    chex.assert_trees_all_equal(second.params, whole.params)
    found, wanted = (jax.random.key_data(one.model_state) for one in (second, whole))
    chex.assert_trees_all_equal(found, wanted)


def test_a_seed_makes_each_key_of_an_array_another_one() -> None:
    one, other = trainer(keys()), trainer(keys())
    other.zero_init_states()
    for each_one in (one, other):
        each_one.seed(3)
    numbers = jax.random.key_data(one.model_state)
    assert numbers.shape == (2, 3, 2)
    assert len({tuple(map(int, row)) for row in numbers.reshape(6, 2)}) == 6
    chex.assert_trees_all_equal(numbers, jax.random.key_data(other.model_state))
    chex.assert_trees_all_equal(one.update(BATCH), other.update(BATCH))


def test_the_numbers_of_keys_are_those_keys() -> None:
    made = trainer(jax.random.split(jax.random.key(0), (2, 3)))
    made.load_states([np.asarray(jax.random.key_data(keys()))])
    chex.assert_trees_all_equal(*map(jax.random.key_data, (made.model_state, keys())))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            np.zeros((2, 3), "float32"),
            TypeError,
            (
                "model state `state` is random keys: give it them, such as "
                "jax.random.split(jax.random.key(0), 3), or the uint32 numbers of them in shape "
                "(2, 3, 2)"
            ),
        ),
        (
            jax.random.key(0),
            ValueError,
            (
                'model state `state` is of type R.Tensor((2, 3), dtype="key<fry>"), but an array '
                "of shape () was given"
            ),
        ),
        (
            np.zeros((3, 2), "uint32"),
            ValueError,
            (
                'model state `state` is of type R.Tensor((2, 3), dtype="key<fry>"), but an array '
                "of shape (3,) was given"
            ),
        ),
    ],
)
def test_what_are_other_keys_is_an_error(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        trainer(keys()).load_states([value])
