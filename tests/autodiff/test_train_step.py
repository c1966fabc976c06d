"""A training step of a loss in JAX: what JAX and optax do in a loop, as one program."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from small_net import BATCH, PARAMS, loss

import relaxjax
from relaxjax.ir.structural import structural_equal
from relaxjax.optim import SGD, Adam
from relaxjax.script import from_source


def matrices(params: Any) -> Any:
    return jax.tree.map(lambda array: len(array) > 1, params)


def by_optax(loss: Callable[..., Any], tx: Any, params: Any, *args: Any, steps: int = 3) -> Any:
    """Parameters and the state of optax after some steps, and the last loss."""

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, *args)
        updates, state = asking.update(gradients, state, params, value=value, grad=gradients)
        return optax.apply_updates(params, updates), state, value

    asking = optax.with_extra_args_support(tx) if isinstance(tx, tuple) else tx
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        state, value = tx.init(params), None
        for _ in range(steps):
            params, state, value = step(params, state)
    return params, state, value


TRANSFORMATIONS = {
    "clipped and masked": optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(1e-2, mask=matrices)
    ),
    "by labels": optax.partition(
        {True: optax.sgd(0.1, momentum=0.9), False: optax.adam(1e-3)}, matrices
    ),
    "from the parameters": optax.contrib.schedule_free_sgd(0.1),
    "with noise": optax.noisy_sgd(0.1, key=jax.random.key(3)),
    "by the loss": optax.masked(optax.contrib.momo_adam(0.1, adapt_lower_bound=True), matrices),
    "by the loss of some": optax.MultiSteps(optax.polyak_sgd(0.5), 2),
    "on a plateau": optax.chain(
        optax.adam(0.1), optax.contrib.reduce_on_plateau(patience=1, rtol=0.5)
    ),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_steps_are_those_of_optax(name: str) -> None:
    tx = TRANSFORMATIONS[name]
    init, step = relaxjax.train_step(loss, tx)
    state, value = init(PARAMS), None
    chex.assert_trees_all_equal_structs(state.opt_state, tx.init(PARAMS))
    for _ in range(3):
        state, value = step(state, BATCH)
    params, opt_state, wanted = by_optax(loss, tx, PARAMS, BATCH)
    chex.assert_trees_all_close(state.params, params, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_close(numbers(state.opt_state), numbers(opt_state), rtol=1e-4, atol=1e-6)
    chex.assert_trees_all_close(value, wanted, rtol=1e-5)
    assert int(state.step) == 3


def numbers(tree: Any) -> Any:
    """A state with its random keys as their data."""
    return jax.tree.map(
        lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x,
        tree,
    )


def test_parameters_of_two_dtypes_are_updated_each_in_its_own() -> None:
    def mixed(params: Any, batch: Any) -> Any:
        hidden = batch[0].astype(jnp.bfloat16) @ params["w0"] + params["b0"].astype(jnp.bfloat16)
        return jnp.mean((jnp.tanh(hidden).astype("float32") @ params["w1"] - batch[1]) ** 2)

    params = {**PARAMS, "w0": PARAMS["w0"].astype(jnp.bfloat16)}
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(0.1, weight_decay=0.1))
    init, step = relaxjax.train_step(mixed, tx)
    state = init(params)
    for _ in range(3):
        state, _ = step(state, BATCH)
    wanted, opt_state, _ = by_optax(mixed, tx, params, BATCH)
    chex.assert_trees_all_equal_dtypes(state.params, params)
    chex.assert_trees_all_equal_shapes_and_dtypes(state.opt_state, opt_state)
    chex.assert_trees_all_close(state.params, wanted, rtol=2e-2, atol=2e-2)


def test_an_optimizer_of_ours() -> None:
    init, step = relaxjax.train_step(loss, Adam(1e-2))
    state = init(PARAMS)
    for _ in range(3):
        state, _ = step(state, BATCH)
    params, _, _ = by_optax(loss, optax.adam(1e-2), PARAMS, BATCH)
    chex.assert_trees_all_close(state.params, params, rtol=1e-5, atol=1e-6)
    assert isinstance(state.opt_state, tuple)


def test_what_is_beside_the_loss() -> None:
    def with_aux(params: Any, batch: Any) -> Any:
        value = loss(params, batch)
        return value, {"twice": 2 * value, "mode": "train", "rows": len(batch[0])}

    init, step = relaxjax.train_step(with_aux, SGD(0.1), has_aux=True)
    _, (value, aux) = step(init(PARAMS), BATCH)
    assert aux == {"twice": 2 * value, "mode": "train", "rows": 32}


@pytest.mark.parametrize("has_aux", [False, True])
def test_a_model_state_moves_on(has_aux: bool) -> None:
    def with_mean(params: Any, state: Any, batch: Any) -> Any:
        mean = 0.9 * state["mean"] + 0.1 * jnp.mean(batch[0], axis=0, keepdims=True)
        inputs = batch[0] - jax.lax.stop_gradient(mean)
        value = loss(params, (inputs, batch[1]))
        return value, ({"mean": mean, "count": state["count"] + 1}, value * 2 if has_aux else None)

    init, step = relaxjax.train_step(with_mean, optax.sgd(0.1), has_aux=has_aux)
    state = init(PARAMS, {"mean": jnp.zeros((1, 8)), "count": jnp.int32(0)})
    mean, found = np.zeros((1, 8), "float32"), None
    for _ in range(3):
        state, found = step(state, BATCH)
        mean = 0.9 * mean + 0.1 * np.mean(BATCH[0], axis=0, keepdims=True)
    chex.assert_trees_all_close(state.model_state["mean"], mean, rtol=1e-5)
    assert int(state.model_state["count"]) == 3
    if has_aux:
        assert found is not None
        assert found[1] == found[0] * 2


@pytest.mark.parametrize("key", [jax.random.key(5), jax.random.PRNGKey(5)], ids=["typed", "raw"])
def test_each_step_has_a_key_of_its_own(key: Any) -> None:
    def with_dropout(params: Any, batch: Any, key: Any) -> Any:
        mask = jax.random.bernoulli(key, 0.5, batch[0].shape)
        return loss(params, (batch[0] * mask.astype(batch[0].dtype), batch[1]))

    init, step = relaxjax.train_step(with_dropout, optax.sgd(0.0))
    state = init(PARAMS, key=key)
    found = []
    for _ in range(3):
        state, value = step(state, BATCH)
        found.append(float(value))
    wanted = []
    for _ in range(3):
        key, own = jax.random.split(key)
        wanted.append(float(with_dropout(PARAMS, BATCH, own)))
    assert len(set(found)) == 3
    chex.assert_trees_all_close(found, wanted, rtol=1e-5)


def test_leaves_that_are_no_arrays_stay() -> None:
    def of_layers(layers: Any, batch: Any) -> Any:
        hidden = batch[0]
        for layer in layers:
            hidden = layer["activation"](hidden @ layer["w"])
        return jnp.mean(hidden**2)

    layers = [{"activation": act, "w": jnp.eye(8)} for act in (jnp.tanh, jax.nn.relu)]
    init, step = relaxjax.train_step(of_layers, optax.adam(0.1))
    state, _ = step(init(layers), BATCH)
    assert state.params[0]["activation"] is jnp.tanh
    assert not np.allclose(state.params[0]["w"], np.eye(8))


@jax.tree_util.register_dataclass
@dataclass
class Dropout:
    rate: float
    is_on: bool
    scale: Any


def test_options_of_a_module_stay_and_numbers_in_dictionaries_move() -> None:
    def of_module(params: Any, batch: Any) -> Any:
        module = params["module"]
        assert module.is_on
        assert isinstance(module.rate, float)
        return jnp.mean((batch[0] * module.rate * module.scale + params["shift"]) ** 2)

    given = {"module": Dropout(rate=0.5, is_on=True, scale=jnp.ones(())), "shift": 1.0}
    init, step = relaxjax.train_step(of_module, optax.sgd(0.1))
    state, _ = step(init(given), BATCH)
    assert (state.params["module"].rate, state.params["module"].is_on) == (0.5, True)
    chex.assert_trees_all_close(state.params["shift"], 0.8, atol=0.05)
    assert float(state.params["module"].scale) < 1


@pytest.mark.parametrize("number", [2.0, jnp.asarray(2.0)], ids=["python", "weak"])
def test_a_number_promotes_in_the_first_step_as_in_all_others(number: Any) -> None:
    """The loss is read once, and the state of an optimizer that joins arrays is of one dtype."""
    found = []

    def scaled(params: Any, batch: Any) -> Any:
        found.append((params["w"] * params["scale"]).dtype)
        return jnp.sum(params["w"] * params["scale"] * batch)

    init, step = relaxjax.train_step(scaled, optax.flatten(optax.adam(0.1)))
    with jax.numpy_dtype_promotion("standard"):
        state = init({"w": jnp.ones(2, "float16"), "scale": number})
        for _ in range(2):
            state, _ = step(state, jnp.ones(2))
    assert found == [jnp.float32]


def test_the_users_arrays_are_left_alone() -> None:
    init, step = relaxjax.train_step(loss, optax.sgd(0.1))
    first = init(PARAMS)
    second, _ = step(first, BATCH)
    assert not any(array.is_deleted() for array in jax.tree.leaves((PARAMS, BATCH)))
    message = re.escape(
        "the state was given to a step before, which used it up: state.params['b0']"
    )
    with pytest.raises(RuntimeError, match=message):
        step(first, BATCH)
    step(second, BATCH)


def test_batches_of_several_sizes_and_kinds() -> None:
    init, step = relaxjax.train_step(lambda p, batch: loss(p, batch["data"]), optax.sgd(0.0))
    state = init(PARAMS)
    for rows in (32, 7, 32):
        state, value = step(state, {"data": (BATCH[0][:rows], BATCH[1][:rows]), "name": str(rows)})
        wanted = loss(PARAMS, (BATCH[0][:rows], BATCH[1][:rows]))
        chex.assert_trees_all_close(value, wanted, rtol=1e-5)
    assert len(step._steps) == 2


def test_what_the_loss_prints_and_what_it_has_from_around(capfd: Any) -> None:
    around = jnp.arange(3.0)

    def loud(params: Any, state: Any, batch: Any) -> Any:
        value = loss(params, batch) + jnp.sum(around)
        jax.debug.print("the loss is {}", value)
        return value, (state + 1, value * 3)

    init, step = relaxjax.train_step(loud, optax.sgd(0.0), has_aux=True)
    state, (value, aux) = step(init(PARAMS, jnp.float32(1)), BATCH)
    jax.effects_barrier()
    assert capfd.readouterr().out.startswith("the loss is ")
    chex.assert_trees_all_close(value, loss(PARAMS, BATCH) + 3, rtol=1e-5)
    chex.assert_trees_all_close((aux, state.model_state), (value * 3, 2.0))


def deep(params: Any, batch: Any) -> Any:
    hidden = batch
    for weight in params:
        hidden = jax.nn.gelu(hidden @ weight)
    return jnp.mean(hidden**2)


@pytest.mark.parametrize("options", [{"memory_policy": "free"}, {"memory_budget": "80%"}])
def test_memory_is_planned_for_the_whole_step(options: dict[str, Any]) -> None:
    params, batch = [jnp.ones((64, 64)) for _ in range(3)], jnp.ones((512, 64))
    init, step = relaxjax.train_step(deep, optax.adam(1e-3), **options)
    state = init(params)
    report = step.memory(state, batch)
    assert report.recomputed
    assert report.bytes_by_xla < report.bytes_by_xla_of_all_kept
    assert report.bytes_by_xla <= (report.budget or report.bytes_by_xla_of_all_kept)
    program = step._steps.values()
    state, value = step(state, batch)
    chex.assert_trees_all_close(value, deep(params, batch), rtol=1e-5)
    assert "_again" in next(iter(program)).module.script()


def test_the_program_is_there_to_read() -> None:
    init, step = relaxjax.train_step(loss, optax.sgd(0.1))
    module = step.module(init(PARAMS), BATCH)
    assert structural_equal(from_source(module.script()), module)
    assert "params_w0" in module["train_step"].script() + module["backbone_loss"].script()
    assert repr(step) == "<training step of loss>"
