"""Trainings whose loops back make the updates: the same steps, checks, files and budgets."""

from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from parsing import parse_backbone

import relaxjax
from relaxjax import IRModule, SetupTrainer, TensorType, VirtualMachine, build
from relaxjax.ir.walk import global_vars
from relaxjax.losses import MSELoss
from relaxjax.optim import Adam, from_optax
from relaxjax.passes.training.fuse_train_step import with_calls
from relaxjax.training import Lines, NumericsError, Trainer, load_trainer

pytestmark = pytest.mark.usefixtures("quickly_compiled")

LAYERS, ROWS, WIDTH = 4, 2, 128
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, WIDTH)).astype("float32")
W = (RNG.normal(size=(LAYERS, WIDTH, WIDTH)) * 0.05).astype("float32")
QUIET = Lines(lambda line: None)


def loss(w: Any, x: Any) -> Any:
    """Layers as those who use JAX write them."""
    return jnp.mean(lax.scan(lambda h, row: (h + jnp.tanh(h @ row), None), x, w)[0] ** 2)


def calls_optimizer(mod: IRModule) -> bool:
    return "optimizer" in {var.name for var in global_vars(mod["train_step"])}


def trainer(**options: Any) -> Trainer:
    return Trainer.from_jax(loss, jnp.asarray(W), Adam(0.01), X, **options)


def test_a_loop_of_the_user_updates_its_weights() -> None:
    init, step = relaxjax.train_step(loss, optax.adam(0.01))
    state, ours = init(jnp.asarray(W)), trainer()
    assert not calls_optimizer(step.module(state, X))
    assert not calls_optimizer(ours.mod)
    tx, w = optax.adam(0.01), jnp.asarray(W)
    wanted = tx.init(w)

    @jax.jit
    def by_hand(w: Any, wanted: Any) -> Any:
        updates, wanted = tx.update(jax.grad(loss)(w, X), wanted, w)
        return optax.apply_updates(w, updates), wanted

    for _ in range(2):
        state, _ = step(state, X)
        ours.update(X)
        with jax.numpy_dtype_promotion("standard"):
            w, wanted = by_hand(w, wanted)
    chex.assert_trees_all_close(state.params, w, rtol=1e-4, atol=1e-5)
    chex.assert_trees_all_close(ours.params, w, rtol=1e-4, atol=1e-5)


def test_several_steps_in_a_call_are_the_same() -> None:
    one, many = trainer(), trainer()
    one.fit([X] * 6, 1, reporter=QUIET, steps_per_call=1)
    many.fit([X] * 6, 1, reporter=QUIET, steps_per_call=3)
    chex.assert_trees_all_close(many.params, one.params, rtol=1e-5, atol=1e-6)


def rolled() -> IRModule:
    """A trainable module of layers that are rolled."""
    params: dict[str, Any] = {f"w{i}": (WIDTH, WIDTH) for i in range(LAYERS)}
    lines = [f"h{i + 1} = R.add(h{i}, R.tanh(R.matmul(h{i}, w{i})))" for i in range(LAYERS)]
    backbone = parse_backbone("\n".join(lines), param_num=LAYERS, h0=(ROWS, WIDTH), **params)
    types = [TensorType(X.shape, "float32")] * 2
    return SetupTrainer(MSELoss(), Adam(0.01), types, roll_blocks=True)(backbone)


def test_files_fit_either_way(tmp_path: Path) -> None:
    mod, path = rolled(), tmp_path / "model.safetensors"
    assert not calls_optimizer(mod)
    assert calls_optimizer(with_calls(mod))
    moved, apart = (Trainer(one, VirtualMachine(build(one))) for one in (mod, with_calls(mod)))
    apart.load_params(list(W))
    apart.update(X, X)
    apart.save(path)
    moved.load(path)
    found = [moved, apart, load_trainer(path)]
    for one in found:
        one.update(X, X)
    first, *others = (one.export_params() for one in found)
    for other in others:
        chex.assert_trees_all_close(other, first, rtol=1e-5, atol=1e-6)


def test_an_infinite_gradient_that_the_update_hides_is_found() -> None:
    def roots(w: Any, x: Any) -> Any:
        return jnp.mean(lax.scan(lambda h, row: (h + jnp.sqrt(row[:2]), None), x, w)[0])

    hiding = from_optax(optax.chain(optax.clip(1.0), optax.sgd(0.1)))
    found = Trainer.from_jax(roots, jnp.zeros((LAYERS, WIDTH, WIDTH)), hiding, X)
    assert not calls_optimizer(found.mod)
    with pytest.raises(NumericsError, match="for the derivative of"):
        found.fit([X], 1, reporter=QUIET, check_numerics=True)
    assert not np.asarray(found.params).any()


def test_a_budget_counts_what_is_saved() -> None:
    free = trainer().memory()
    limit = free.bytes_by_xla
    assert limit < W.nbytes < free.peak
    assert trainer(memory_budget=limit).memory().bytes_by_xla <= limit
