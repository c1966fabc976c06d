"""Losses written in JAX whose residuals wait on the host of the GPU that they are made for."""

import warnings
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
import pytest
from jax import export

import relaxjax
from relaxjax.ops.platform import lowering_for
from relaxjax.training import Trainer

TO_HOST = '"pinned_host"'


def loss(params: Any, batch: Any) -> Any:
    x, y = batch
    for weight in params["layers"]:
        x = jnp.tanh(x @ weight)
    return jnp.mean((x - y) ** 2)


def given() -> tuple[Any, Any]:
    keys = jax.random.split(jax.random.key(0), 8)
    layers = [jax.random.normal(key, (32, 32)) / 6 for key in keys[:6]]
    return {"layers": layers}, tuple(jax.random.normal(key, (1024, 32)) for key in keys[6:])


def test_a_cpu_warns_and_computes_the_same() -> None:
    step = relaxjax.value_and_grad(loss, memory_policy="offload")
    with pytest.warns(UserWarning, match="`offload` moves nothing on a CPU"):
        found = jax.jit(step)(*given())
    chex.assert_trees_all_close(found, jax.value_and_grad(loss)(*given()), rtol=1e-4, atol=1e-6)


def test_the_program_for_a_gpu_is_made_where_it_is_lowered() -> None:
    """On a machine without one: JAX sees no transfer in the program for the CPU."""
    step = relaxjax.value_and_grad(loss, memory_policy="offload")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the program for the CPU, if it is written here
        exported = export.export(jax.jit(step), platforms=["cuda"])(*given())
    with lowering_for("cuda"):
        report = step.memory(*given())
    assert exported.mlir_module().count(TO_HOST) == len(report.on_host) > 0
    assert report.peak < report.peak_of_all_kept


def test_a_step_is_planned_with_its_update() -> None:
    _, step = relaxjax.train_step(loss, optax.adam(1e-3), memory_policy="offload")
    init, _ = relaxjax.train_step(loss, optax.adam(1e-3))
    params, batch = given()
    with lowering_for("cuda"):
        report = step.memory(jax.eval_shape(init, params), batch)
    assert report.on_host
    assert report.caller is not None
    assert report.peak < report.peak_of_all_kept


def test_a_trainer_on_a_cpu_trains_as_without() -> None:
    params, batch = given()
    losses = []
    for policy in ("none", "offload"):
        options: Any = {"memory_policy": policy}
        if policy == "none":
            trainer = Trainer.from_jax(loss, params, optax.adam(1e-3), batch, **options)
        else:
            with pytest.warns(UserWarning, match="`offload` moves nothing on a CPU"):
                trainer = Trainer.from_jax(loss, params, optax.adam(1e-3), batch, **options)
        losses.append([float(trainer.update(batch)) for _ in range(2)])
    chex.assert_trees_all_close(*losses, rtol=1e-5)
