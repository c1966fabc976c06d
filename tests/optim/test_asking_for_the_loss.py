"""Optimizers that ask for the loss: it is the mean of the whole batch, and not scaled."""

from dataclasses import dataclass
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
import optax.contrib
import pytest
from adjoint_checks import signed_array

import relaxjax
from relaxjax import TensorType, Trainer, Var
from relaxjax.ir.check import well_formed
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TupleType
from relaxjax.optim import Lazy, Narrow, Optimizer, Step, from_optax

PARAMS = {"layers": signed_array(4, 8, 8) * 0.2, "b": jnp.zeros((1, 8))}
BATCHES = [(signed_array(8, 8, seed=n), signed_array(8, 8, seed=n + 9)) for n in range(4)]


def loss(params: Any, batch: Any) -> Any:
    def layer(x: Any, w: Any) -> Any:
        return x + jnp.tanh(x @ w), None

    x, _ = jax.lax.scan(layer, batch[0] + params["b"], params["layers"])
    return jnp.mean((x - batch[1]) ** 2)


def layers(params: Any, batch: Any) -> Any:
    """The same, with layers one after the other."""
    x = batch[0] + params["b"]
    for w in params["layers"]:
        x = x + jnp.tanh(x @ w)
    return jnp.mean((x - batch[1]) ** 2)


def by_optax(tx: Any, params: Any, batches: Any = BATCHES, of: Any = loss) -> Any:
    """Parameters and losses of a loop in JAX and optax."""

    @jax.jit
    def step(params: Any, state: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(of)(params, batch)
        updates, state = tx.update(gradients, state, params, value=value, grad=gradients)
        return optax.apply_updates(params, updates), state, value

    values = []
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        state = tx.init(params)
        for batch in batches:
            params, state, value = step(params, state, batch)
            values.append(value)
    return params, values


def trained(tx: Any, params: Any, batches: Any = BATCHES, of: Any = loss, **options: Any) -> Any:
    trainer = Trainer.from_jax(of, params, tx, batches[0], **options)
    well_formed(trainer.mod)
    values = [trainer.update(batch) for batch in batches]
    return trainer.params, values


def plateau(tx: Any) -> Any:
    """By number where `tx` is; its scale falls with each step that is not far better."""
    return optax.chain(tx, optax.contrib.reduce_on_plateau(factor=0.5, patience=1, rtol=0.5))


ASKING = {
    "plateau": plateau(optax.adam(0.02)),
    "polyak": optax.chain(optax.clip(0.1), optax.polyak_sgd(0.3)),
    "momo": optax.contrib.momo(0.3),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaled": {"loss_scale": 64.0},
    "in parts": {"accumulate": 4},
    "planned": {"memory_policy": "balanced"},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ASKING)
def test_trainers_step_as_optax_does(name: str, options: str) -> None:
    params, values = trained(ASKING[name], PARAMS, **OPTIONS[options])
    wanted, losses = by_optax(ASKING[name], PARAMS)
    chex.assert_trees_all_close(values, losses, rtol=1e-5)
    chex.assert_trees_all_close(params, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["plateau", "polyak"])
def test_equal_layers_stored_as_one_stack(name: str) -> None:
    """By number the stack is updated, else its rows."""
    start = {**PARAMS, "layers": list(PARAMS["layers"])}
    params, _ = trained(ASKING[name], start, of=layers, roll_blocks=True)
    wanted, _ = by_optax(ASKING[name], start, of=layers)
    chex.assert_trees_all_close(params, wanted, rtol=1e-4, atol=1e-6)


def test_half_precision_gets_the_loss_in_float32() -> None:
    def half(tree: Any) -> Any:
        return jax.tree.map(lambda array: array.astype("float16"), tree)

    tx, batches = ASKING["polyak"], half(BATCHES)
    trainer = Trainer.from_jax(loss, half(PARAMS), tx, batches[0], loss_scale="dynamic")
    asked = trainer.mod["optimizer"].params[3]
    assert str(asked.ty) == 'R.Tensor((), dtype="float32")'
    for batch in batches:
        trainer.update(batch)
    wanted, _ = by_optax(tx, PARAMS)
    chex.assert_trees_all_close(
        jax.tree.map(lambda array: array.astype("float32"), trainer.params), wanted, atol=5e-3
    )


def test_a_step_that_is_left_out_leaves_the_state_as_it_was() -> None:
    def steep(params: Any, batch: Any) -> Any:
        return jnp.sum((params["w"] * batch) ** 2)

    good, bad = jnp.float32([1.0, 0.5]), jnp.float32([1e30, 1.0])
    tx = ASKING["momo"]
    start = {"w": jnp.ones(2)}
    params, _ = trained(tx, start, [good, bad, 2 * good], steep, loss_scale="dynamic")
    wanted, _ = by_optax(tx, start, [good, 2 * good], steep)
    chex.assert_trees_all_close(params, wanted, rtol=1e-5)


def test_rows_of_tables_and_narrow_states() -> None:
    def of_table(params: Any, batch: Any) -> Any:
        rows = jnp.take(params["table"], batch[0], axis=0, mode="clip")
        return jnp.mean((rows @ params["w"] - batch[1]) ** 2)

    start = {"table": signed_array(64, 8), "w": signed_array(8, 3)}
    batches = [(jnp.array([3, n, 60]), signed_array(3, 3, seed=n)) for n in range(4)]
    tx = plateau(optax.sgd(0.1))
    wanted, _ = by_optax(tx, start, batches, of_table)
    trainer = Trainer.from_jax(of_table, start, tx, batches[0])
    assert len(trainer.mod["optimizer"].params) == 4
    assert isinstance(trainer.mod["optimizer"].params[1].ty, TupleType)
    for optimizer in (tx, Lazy(from_optax(tx))):
        params, _ = trained(optimizer, start, batches, of_table)
        chex.assert_trees_all_close(params, wanted, rtol=1e-5, atol=1e-6)
    narrow = Narrow(from_optax(plateau(optax.adam(0.02))), smallest=1)
    params, _ = trained(narrow, start, batches, of_table)
    wanted, _ = by_optax(plateau(optax.adam(0.02)), start, batches, of_table)
    chex.assert_trees_all_close(params, wanted, rtol=1e-2, atol=1e-3)


@dataclass(frozen=True)
class ByLoss(Optimizer):
    """p = p - lr * loss * g."""

    lr: float

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> tuple[()]:
        return ()

    def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
        rate = step.emit(self.lr * step.loss, "rate")
        pairs = step.parameters()
        new: list[Expr] = [step.emit(p - rate * g, f"{name}_new") for name, p, g in pairs]
        return new, []


def test_an_optimizer_of_your_own_may_ask() -> None:
    init, step = relaxjax.train_step(loss, ByLoss(0.1))
    state, value = step(init(PARAMS), BATCHES[0])
    gradients = jax.grad(loss)(PARAMS, BATCHES[0])
    wanted = jax.tree.map(lambda p, g: p - 0.1 * value * g, PARAMS, gradients)
    chex.assert_trees_all_close(state.params, wanted, rtol=1e-5, atol=1e-6)


def test_who_does_not_ask_is_not_told() -> None:
    w = Var("w", TensorType((2,), "float32"))
    asks = from_optax(optax.contrib.reduce_on_plateau()).init([w]).get_function()
    other = from_optax(optax.masked(optax.sgd(0.1), {"w": True})).init([w]).get_function()
    assert [param.name for param in asks.params] == ["params", "gradients", "optim_states", "loss"]
    assert [param.name for param in other.params] == ["params", "gradients", "optim_states"]
