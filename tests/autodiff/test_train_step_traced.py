"""A training step inside of what JAX traces, and of arrays on a mesh of devices."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import relaxjax

PARAMS = {"w": jnp.linspace(-1.0, 1.0, 24).reshape(8, 3), "b": jnp.zeros((1, 3))}
BATCH = jnp.sin(jnp.arange(32.0)).reshape(4, 8), jnp.cos(jnp.arange(12.0)).reshape(4, 3)
STEPS = 2


def loss(params: Any, batch: Any) -> Any:
    inputs, targets = batch
    return jnp.mean((jnp.tanh(inputs @ params["w"] + params["b"]) - targets) ** 2)


def by_optax() -> Any:
    """The parameters after some steps, and the last loss."""
    tx, params = optax.adam(1e-2), PARAMS
    state, value = tx.init(params), jnp.zeros(())
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(STEPS):
            value, gradients = jax.value_and_grad(loss)(params, BATCH)
            updates, state = tx.update(gradients, state, params)
            params = optax.apply_updates(params, updates)
    return params, value


def in_jit(step: Any, state: Any) -> Any:
    run, value = jax.jit(step), None
    for _ in range(STEPS):
        state, value = run(state, BATCH)
    return state.params, value


def in_scan(step: Any, state: Any) -> Any:
    batches = jax.tree.map(lambda array: jnp.stack([array] * STEPS), BATCH)
    state, values = jax.lax.scan(step, state, batches)
    return state.params, values[-1]


def in_vmap(step: Any, state: Any) -> Any:
    state, value = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state), None
    for _ in range(STEPS):
        state, value = jax.vmap(step, (0, None))(state, BATCH)
    return jax.tree.map(lambda leaf: leaf[0], (state.params, value))


@pytest.mark.parametrize("run", [in_jit, in_scan, in_vmap])
def test_steps_are_those_outside(run: Any) -> None:
    init, step = relaxjax.train_step(loss, optax.adam(1e-2))
    chex.assert_trees_all_close(run(step, init(PARAMS)), by_optax(), rtol=1e-5, atol=1e-6)


def test_the_types_of_a_step_are_known_without_it() -> None:
    init, step = relaxjax.train_step(loss, optax.adam(1e-2))
    state, value = jax.eval_shape(step, init(PARAMS), BATCH)
    assert value.shape == ()
    assert state.params["w"].shape == (8, 3)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_arrays_on_a_mesh(kind: AxisType) -> None:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(kind,))
    params = jax.device_put(PARAMS, NamedSharding(mesh, PartitionSpec()))
    batch = jax.device_put(BATCH, NamedSharding(mesh, PartitionSpec("d")))
    init, step = relaxjax.train_step(loss, optax.adam(1e-2))
    state, value = init(params), None
    for _ in range(STEPS):
        state, value = step(state, batch)
    chex.assert_trees_all_close((state.params, value), by_optax(), rtol=1e-5, atol=1e-6)
    found, given = (jax.tree.map(jax.typeof, each) for each in (state.params, params))
    assert found == given


def test_no_step_where_devices_have_arrays_of_their_own() -> None:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(AxisType.Auto,))
    init, step = relaxjax.train_step(loss, optax.sgd(0.1))
    whole = PartitionSpec()

    def on_device(state: Any, batch: Any) -> Any:
        return step(state, batch)[0]

    specs = (whole, PartitionSpec("d"))
    mapped: Any = jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=whole)
    with pytest.raises(ValueError, match=r"a training step cannot be taken inside jax\.shard_map"):
        mapped(init(PARAMS), BATCH)
