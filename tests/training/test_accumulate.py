"""A batch that is taken in parts: the same step, with what one part keeps."""

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from adjoint_checks import signed_array

from relaxjax import Trainer

PARAMS = [signed_array(32, 32, seed=seed) / 3 for seed in range(4)]
BATCH: dict[str, Any] = {
    "x": np.asarray(signed_array(2048, 32, seed=4)),
    "y": np.asarray(signed_array(2048, 32, seed=5)),
    "scale": np.float32(2.0),
    "mode": "tanh",
}


def loss(params: Any, batch: Any) -> Any:
    hidden = batch["x"]
    for weight in params:
        hidden = getattr(jnp, batch["mode"])(hidden @ weight)
    errors = (hidden - batch["y"]) ** 2 * batch["scale"]
    return jnp.mean(errors), {"mean": jnp.mean(errors), "each": jnp.mean(errors, -1)}


def trainer_in(parts: int) -> Trainer:
    return Trainer.from_jax(loss, PARAMS, optax.adam(1e-2), BATCH, has_aux=True, accumulate=parts)


def test_parts_are_equal_to_the_whole_and_need_less() -> None:
    whole, parts = trainer_in(1), trainer_in(8)
    for _ in range(8):
        chex.assert_trees_all_close(parts.update(BATCH), whole.update(BATCH), rtol=1e-5)
    chex.assert_trees_all_close(parts.params, whole.params, rtol=1e-2, atol=1e-4)
    most, least = whole.temporary_bytes(BATCH), parts.temporary_bytes(BATCH)
    assert most is not None
    assert least is not None
    assert least < 0.3 * most
    chex.assert_trees_all_close(parts.evaluate(BATCH), whole.evaluate(BATCH), rtol=1e-2)
    assert parts.evaluate(BATCH)[1]["each"].shape == (2048,)


def products(trainer: Trainer) -> int:
    return str(trainer.mod["backbone_loss_adjoint"].script()).count("L.dot_general(")


def normalized(params: Any, state: Any, batch: Any, key: Any) -> Any:
    """It gives running means, as batch norms do, which it does not use."""
    hidden = jnp.tanh(batch @ params) * jax.random.uniform(key, batch.shape)
    mean = jnp.mean(hidden, 0, keepdims=True)
    new = {"mean": 0.9 * state["mean"] + 0.1 * mean}
    return jnp.mean((hidden - mean) ** 2), (new, {"norm": jnp.sum(hidden**2)})


def test_no_part_is_computed_twice() -> None:
    assert products(trainer_in(8)) == products(trainer_in(1))
    state, key = {"mean": jnp.zeros((1, 32))}, jax.random.key(1)
    given: dict[str, Any] = {"model_state": state, "key": key, "has_aux": True}
    whole, parts = (
        Trainer.from_jax(
            normalized, PARAMS[0], optax.sgd(0.1), BATCH["x"], accumulate=count, **given
        )
        for count in (1, 4)
    )
    assert products(parts) == products(whole)


def test_gradients_go_back_through_states_that_the_next_part_reads() -> None:
    def following(params: Any, state: Any, batch: Any) -> Any:
        hidden = jnp.tanh(batch @ params)
        return jnp.mean((hidden - state) ** 2), (jnp.mean(hidden, 0, keepdims=True), None)

    def parts_of(params: Any) -> Any:
        state, values = jnp.zeros((1, 32)), []
        for piece in np.split(BATCH["x"], 4):
            value, (state, _) = following(params, state, piece)
            values.append(value)
        return jnp.mean(jnp.stack(values))

    given: dict[str, Any] = {"model_state": jnp.zeros((1, 32)), "accumulate": np.int64(4)}
    trainer = Trainer.from_jax(following, PARAMS[0], optax.sgd(1.0), BATCH["x"], **given)
    trainer.update(BATCH["x"])
    wanted = PARAMS[0] - jax.grad(parts_of)(PARAMS[0])
    chex.assert_trees_all_close(trainer.params, wanted, rtol=1e-4, atol=1e-6)


def test_states_and_keys_go_from_part_to_part() -> None:
    def noisy(params: Any, state: Any, batch: Any, key: Any) -> Any:
        noise = jax.random.normal(key, batch.shape)
        new = {"calls": state["calls"] + 1, "last": batch[-1], "name": state["name"]}
        return jnp.mean((batch @ params + noise) ** 2), (new, None)

    state, key = {"calls": jnp.int32(0), "last": jnp.zeros(32), "name": "a"}, jax.random.key(5)
    given: dict[str, Any] = {"model_state": state, "key": key, "accumulate": 4}
    trainer = Trainer.from_jax(noisy, PARAMS[0], optax.sgd(0.0), BATCH["x"], **given)
    _, own = jax.random.split(key)
    pieces = zip(np.split(BATCH["x"], 4), jax.random.split(own, 4), strict=True)
    wanted = np.mean([noisy(PARAMS[0], state, piece, key)[0] for piece, key in pieces])
    chex.assert_trees_all_close(trainer.update(BATCH["x"]), wanted, rtol=1e-5)
    assert int(trainer.model_state["calls"]) == 4
    assert trainer.model_state["name"] == "a"
    chex.assert_trees_all_equal(trainer.model_state["last"], BATCH["x"][-1])


def test_random_keys_beside_a_loss_are_those_of_the_parts() -> None:
    def keyed(params: Any, batch: Any, key: Any) -> Any:
        return jnp.mean(batch @ params), {"one": key, "two": jax.random.split(key)}

    given: dict[str, Any] = {"key": jax.random.key(5), "accumulate": 4, "has_aux": True}
    trainer = Trainer.from_jax(keyed, PARAMS[0], optax.sgd(0.0), BATCH["x"], **given)
    _, beside = trainer.evaluate(BATCH["x"])
    assert beside["one"].shape == (4,)
    each = jax.vmap(jax.random.split)(beside["one"]).reshape(8)
    chex.assert_trees_all_equal(*map(jax.random.key_data, (beside["two"], each)))


@pytest.mark.parametrize(
    ("parts", "change", "message"),
    [
        (
            3,
            {},
            (
                "accumulate=3 takes a batch in 3 equal parts, but the first dimension of "
                "batch['x'] is 2048: give a batch size that 3 divides"
            ),
        ),
        (
            4,
            {"y": np.ones((8, 32), "float32")},
            (
                "accumulate=4 splits all arrays of a batch along their first dimension, but that "
                "of batch['x'] is 2048 and that of batch['y'] is 8"
            ),
        ),
        (0, {}, "`accumulate` must be an integer of at least 1, but it is 0"),
        (True, {}, "`accumulate` must be an integer of at least 1, but it is True"),
    ],
)
def test_what_cannot_be_taken_apart_is_an_error(parts: Any, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Trainer.from_jax(
            loss, PARAMS, optax.sgd(0.1), {**BATCH, **change}, has_aux=True, accumulate=parts
        )


def test_a_batch_without_samples_is_taken_in_parts_by_its_random_key_alone() -> None:
    def drawn(params: Any, scale: Any, key: Any) -> Any:
        return jnp.mean((jax.random.normal(key, (4, 32)) @ params) ** 2) * scale

    params, scale, key = PARAMS[0], np.float32(0.5), jax.random.key(5)
    trainer = Trainer.from_jax(drawn, params, optax.sgd(0.1), scale, key=key, accumulate=4)
    keys = jax.random.split(jax.random.split(key)[1], 4)
    wanted = jnp.mean(jnp.stack([drawn(params, scale, one) for one in keys]))
    chex.assert_trees_all_close(trainer.update(scale), wanted, rtol=1e-5)
    message = "accumulate=4 takes a batch in 4 equal parts, but it has no array with a dimension"
    with pytest.raises(ValueError, match=message):
        Trainer.from_jax(lambda w, s: jnp.sum(w) * s, params, optax.sgd(0.1), scale, accumulate=4)
