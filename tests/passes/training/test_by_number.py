"""Optimizers that are known to treat each number by itself, by what their functions compute."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from relaxjax import Function, IRModule, TensorType, Trainer, Var, to_jax
from relaxjax.ir.node import replace
from relaxjax.optim import Adam, from_optax
from relaxjax.passes.training.by_number import update_by_number
from relaxjax.trainable.storage import Storage

pytestmark = pytest.mark.usefixtures("quickly_compiled")

SCHEDULE = optax.cosine_decay_schedule(1e-2, 10)
SHAPES = {"a": (3, 4), "b": (4,), "c": (3, 4), "d": (4,), "t": ()}
PARAMS = [Var(name, TensorType(shape, "float32")) for name, shape in SHAPES.items()]
KEYS = jax.random.split(jax.random.key(0), 64)


def of_matrices(params: Any) -> Any:
    return jax.tree.map(lambda array: array.ndim > 1, params)


def only_a(params: Any) -> Any:
    return {name: name == "a" for name in params}


ALONE = {
    "adam": optax.adam(1e-2),
    "adamw by a schedule": optax.adamw(SCHEDULE),
    "adamw of matrices": optax.adamw(1e-2, weight_decay=0.1, mask=of_matrices),
    "adamw of one": optax.adamw(1e-2, weight_decay=0.1, mask=only_a),
    "sgd": optax.sgd(SCHEDULE),
    "nesterov": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "lion": optax.lion(SCHEDULE),
    "rmsprop of clipped numbers": optax.chain(optax.clip(1.0), optax.rmsprop(0.1)),
    "hyperparameters in the state": optax.inject_hyperparams(optax.adam)(1e-2),
    "the largest of squares": optax.amsgrad(1e-2),
    "of this library": Adam(1e-2),
}
TOGETHER = {
    "a global norm": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2)),
    "factors of rows and columns": optax.adafactor(1e-2, min_dim_size_to_factor=2),
    "norms of layers": optax.lamb(1e-2),
    "norms of rows": optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(0.1)),
    "means of gradients": optax.chain(optax.centralize(), optax.sgd(0.1)),
    "noise": optax.chain(optax.add_noise(0.1, 0.1, 0), optax.sgd(0.1)),
    "several steps": optax.MultiSteps(optax.adam(1e-2), 4),
    "a choice by all gradients": optax.apply_if_finite(optax.adam(1e-2), 3),
    "states of some": optax.masked(optax.adam(1e-2), only_a),
    "products": optax.contrib.muon(1e-2),
}


def ready(optimizer: Any, params: Any = PARAMS) -> Any:
    own = optimizer if isinstance(optimizer, Adam) else from_optax(optimizer)
    return own.init(params)


@pytest.mark.parametrize("name", [*ALONE, *TOGETHER])
def test_what_is_proven(name: str) -> None:
    found = update_by_number(ready({**ALONE, **TOGETHER}[name]), PARAMS)
    assert (found is not None) == (name in ALONE)


def run(function: Function, *args: Any) -> Any:
    named = function.with_attr("global_symbol", "optimizer")
    return jax.jit(to_jax(IRModule({"optimizer": named}), "optimizer"))(*args)


@pytest.mark.parametrize("name", ALONE)
def test_the_update_of_stacks_is_that_of_their_rows(name: str) -> None:
    """Also where decay goes by the rank of a parameter, or by its name."""
    check_stacks(ALONE[name], PARAMS)


def test_states_in_the_order_of_names_are_told_by_their_owners() -> None:
    """optax has the states of `a`, the last one, first."""
    params = [replace(var, name=name) for var, name in zip(PARAMS, "edcba", strict=True)]
    for name in ("adamw of matrices", "lion", "rmsprop of clipped numbers"):
        check_stacks(ALONE[name], params)


def test_a_row_of_single_numbers_is_updated_like_each() -> None:
    """What chooses between numbers is of the shape of the row then, and so is what it chooses."""
    shapes: dict[str, tuple[int, ...]] = {"a": (), "b": (), "c": (3,)}
    params = [Var(name, TensorType(shape, "float32")) for name, shape in shapes.items()]
    own = ready(optax.rprop(0.1), params)
    update = update_by_number(own, params)
    assert update is not None
    storage = Storage.apart(3).stacked([(0, 1)])
    arrays = [Var("stack", TensorType((2,), "float32")), params[2]]
    stored = update.stored(arrays, storage)
    given = np.float32(2), np.float32(-1), np.ones(3, "float32")
    gradients = np.float32(0.3), np.float32(-4), np.full(3, 0.5, "float32")
    inside = (tuple(storage.inside(each)) for each in (given, gradients))
    new, _ = run(stored.get_function(), *inside, tuple(stored.state))
    wanted, _ = run(own.get_function(), given, gradients, tuple(own.state))
    chex.assert_trees_all_close(storage.outside(new), wanted, rtol=1e-6)


def check_stacks(optimizer: Any, own_params: Any) -> None:
    own = ready(optimizer, own_params)
    update = update_by_number(own, own_params)
    assert update is not None
    storage = Storage.apart(5).stacked([(0, 2)]).moved({1: (0,)})
    shapes = {"a_stack": (2, 3, 4), "b": (4,), "d": (4,), "t": ()}
    arrays = [Var(label, TensorType(shape, "float32")) for label, shape in shapes.items()]
    stored = update.stored(arrays, storage)
    keys = iter(KEYS)
    params = [jax.random.normal(next(keys), shape) for shape in SHAPES.values()]
    states, stored_states = own.state, stored.state
    for _ in range(3):
        gradients = [jax.random.normal(next(keys), shape) for shape in SHAPES.values()]
        given = (tuple(storage.inside(part)) for part in (params, gradients))
        new, stored_states = run(stored.get_function(), *given, tuple(stored_states))
        params, states = run(own.get_function(), tuple(params), tuple(gradients), tuple(states))
        chex.assert_trees_all_close(storage.outside(new), tuple(params), rtol=1e-6)
    assert len(stored_states) < len(states) or not any(np.shape(state) for state in states)


def step_of_optax(tx: Any, loss: Any, params: Any, batch: Any, count: int) -> Any:
    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = tx.update(jax.grad(loss)(params, batch), state, params)
        return optax.apply_updates(params, updates), state

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        state = tx.init(params)
        for _ in range(count):
            params, state = step(params, state)
    return params


def check_stored(loss: Any, params: Any, batch: Any, tx: Any, path: Any) -> Trainer:
    """A trainer that stores parameters otherwise takes the steps of optax, after a save too."""
    trainer = Trainer.from_jax(loss, params, tx, batch)
    assert "stored_params" in trainer.mod.attrs
    for _ in range(3):
        trainer.update(batch)
    trainer.save(path / "saved")
    other = Trainer.from_jax(loss, params, tx, batch, roll_blocks=False, channels_last=False)
    other.load(path / "saved")
    wanted = step_of_optax(tx, loss, params, batch, 4)
    for one in (trainer, other):
        one.update(batch)
        chex.assert_trees_all_close(one.params, wanted, rtol=1e-4, atol=1e-5)
    return trainer


def test_layers_are_rolled_for_an_optimizer_of_optax(tmp_path: Any) -> None:
    def loss(params: Any, batch: Any) -> Any:
        for layer in params:
            for _ in range(5):
                batch = jnp.tanh(batch) * jnp.cos(batch)
            batch = batch @ layer["w"] + layer["b"][None]
        return jnp.mean(batch**2)

    params = [{"w": jax.random.normal(key, (8, 8)) / 3, "b": jnp.full(8, 0.1)} for key in KEYS[:6]]
    tx = optax.adamw(SCHEDULE, weight_decay=0.1, mask=of_matrices)
    trainer = check_stored(loss, params, jax.random.normal(KEYS[9], (4, 8)), tx, tmp_path)
    assert "R.scan(" in str(trainer.mod["backbone_loss_adjoint"].script())


def test_kernels_are_stored_as_the_step_reads_them(tmp_path: Any) -> None:
    def loss(params: Any, batch: Any) -> Any:
        for kernel in params:
            batch = jax.nn.relu(jax.lax.conv(batch, kernel, (1, 1), "SAME"))
        return jnp.mean(batch**2)

    params = [jax.random.normal(key, (16, 16, 3, 3)) / 12 for key in KEYS[:2]]
    batch = jax.random.normal(KEYS[2], (2, 16, 5, 5))
    trainer = check_stored(loss, params, batch, optax.adamw(1e-2), tmp_path)
    assert any(entry["order"] for entry in trainer.mod.attrs["stored_params"])
