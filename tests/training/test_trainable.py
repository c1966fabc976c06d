"""Parameters that are not trained: no gradient, no state of the optimizer, and less memory."""

import re
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from relaxjax import Trainer
from relaxjax.autodiff.step_frozen import frozen_of
from relaxjax.optim import Adam
from relaxjax.training import Checkpoints, Lines

WIDTH, RANK, LAYERS = 128, 2, 4
NUMBERS = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return NUMBERS.normal(size=shape).astype("float32")


PARAMS: dict[str, Any] = {
    "layers": [
        {
            "w": jnp.asarray(normal(WIDTH, WIDTH) / 12),
            "lora": {"a": jnp.asarray(normal(WIDTH, RANK) / 12), "b": jnp.zeros((RANK, WIDTH))},
        }
        for _ in range(LAYERS)
    ],
    "ids": jnp.arange(WIDTH),
}
BATCH = normal(16, WIDTH), normal(16, WIDTH)


def loss(params: Any, batch: Any) -> Any:
    hidden, targets = batch
    for layer in params["layers"]:
        low = (hidden @ layer["lora"]["a"]) @ layer["lora"]["b"]
        hidden = hidden + jnp.tanh(hidden @ layer["w"] + low)
    return jnp.mean((hidden[:, params["ids"]] - targets) ** 2)


def whole(params: Any, batch: Any) -> Any:
    """Of parameters without integers."""
    return loss({**params, "ids": PARAMS["ids"]}, batch)


LORA = {"layers": [{"w": False, "lora": True}] * LAYERS, "ids": False}


def step_bytes(trainer: Trainer) -> int:
    """What a step needs with its arguments and results, as XLA counts it."""
    with trainer._step.dtypes():
        lowered = trainer._step.one.lower(trainer._state, *trainer._batch(BATCH, None))
        found: Any = lowered.compile().memory_analysis()
    own = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return int(own + found.temp_size_in_bytes)


def test_flags_may_be_of_numpy() -> None:
    no, yes = np.False_, np.True_
    flags = {"layers": [{"w": no, "lora": yes}] * LAYERS, "ids": no}
    assert frozen_of(PARAMS, flags) == frozen_of(PARAMS, LORA)


def test_the_others_stay_and_need_less() -> None:
    tx = optax.adam(1e-2)
    trainer = Trainer.from_jax(loss, PARAMS, tx, BATCH, trainable=LORA)
    own = [layer["lora"] for layer in PARAMS["layers"]]

    def of_own(own: Any) -> Any:
        pairs = zip(PARAMS["layers"], own, strict=True)
        return loss({**PARAMS, "layers": [{**layer, "lora": x} for layer, x in pairs]}, BATCH)

    @jax.jit
    def step(own: Any, state: Any) -> Any:
        value, gradients = jax.value_and_grad(of_own)(own)
        updates, state = tx.update(gradients, state, own)
        return value, optax.apply_updates(own, updates), state

    state = tx.init(own)
    for _ in range(5):
        with jax.numpy_dtype_promotion("standard"):
            value, own, state = step(own, state)
        chex.assert_trees_all_close(trainer.update(BATCH), value, rtol=1e-5)
    found = trainer.params
    chex.assert_trees_all_equal_structs(found, PARAMS)
    chex.assert_trees_all_close([layer["lora"] for layer in found["layers"]], own, rtol=1e-3)
    chex.assert_trees_all_equal(
        [layer["w"] for layer in found["layers"]], [layer["w"] for layer in PARAMS["layers"]]
    )
    assert len(trainer.layout.params.vars) == 2 * LAYERS
    assert len(trainer.layout.optimizer.vars) == 2 * 2 * LAYERS + 1
    rest = {"layers": PARAMS["layers"]}
    everything = Trainer.from_jax(whole, rest, tx, BATCH)
    assert step_bytes(trainer) < 0.5 * step_bytes(everything)


def test_an_optimizer_of_ours_leaves_them_out_of_stacks() -> None:
    """A loop over the layers would copy what is not trained into a stack, in each step."""
    auto, apart = (
        Trainer.from_jax(loss, PARAMS, Adam(1e-2), BATCH, trainable=["*/lora/*"], roll_blocks=roll)
        for roll in ("auto", False)
    )
    assert auto.layout.storage["params"].is_apart
    assert step_bytes(auto) == step_bytes(apart)
    assert auto.update(BATCH) == apart.update(BATCH)


def test_a_training_of_some_goes_on(tmp_path: Any) -> None:
    def trained(resume: bool, epochs: int) -> Any:
        trainer = Trainer.from_jax(
            loss, PARAMS, optax.adam(1e-2), BATCH, trainable=["layers/[13]/lora/?"]
        )
        checkpoints = Checkpoints(tmp_path / str(epochs) if not resume else tmp_path / "1")
        quiet = Lines(lambda line: None)
        trainer.fit([BATCH] * 3, epochs, reporter=quiet, checkpoints=checkpoints, resume=resume)
        return trainer.params

    trained(False, 1)
    chex.assert_trees_all_equal(trained(True, 2), trained(False, 2))


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "none": (
        lambda: {"layers": False, "ids": False},
        ValueError,
        "`trainable` leaves no parameter to be trained: say True of some of them",
    ),
    "integers": (
        lambda: {"layers": True, "ids": True},
        TypeError,
        "params['ids'] is of dtype int32, which has no gradient",
    ),
    "all, integers too": (lambda: None, TypeError, "params['ids'] is of dtype int32"),
    "a pattern for nothing": (
        lambda: ["*/lora/*", "*/lorra/*"],
        ValueError,
        "the pattern '*/lorra/*' of `trainable` is for none of the parameters ids, layers/0/lora/a",
    ),
    "another tree": (
        lambda: {"layers": True},
        ValueError,
        "a list of patterns for names: it is for layers, and the parameters are ids, layers/0/lora",
    ),
    "no flag": (
        lambda: {"layers": "yes", "ids": False},
        TypeError,
        "`trainable`['layers'][0]['lora']['a'] must be True or False, but it is 'yes'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_is_wrong(name: str) -> None:
    trainable, kind, message = WRONG[name]
    with pytest.raises(kind, match=re.escape(message)):
        Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), BATCH, trainable=trainable())
