"""Dropout in training: drawn anew in each step, from a key that is a state of the model."""

from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_backbone, parse_flow, parse_module

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.check import well_formed
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import OPS, get_op
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import TensorType
from relaxjax.losses import MSELoss
from relaxjax.lowering import VirtualMachine, build, to_jax
from relaxjax.ops import op
from relaxjax.optim import SGD
from relaxjax.passes import DecomposeOpsForTraining, MutateOpsForTraining, SetupTrainer
from relaxjax.script import from_source
from relaxjax.training import CheckpointError, Checkpoints, Lines, Trainer

SCORES = TensorType((8, 6), "float32")
QUIET = Lines(lambda line: None)


BODY = """
    thin = R.nn.dropout(x, rate=0.25)
    scaled = R.multiply(thin[0], w)
    thinner = R.nn.dropout(scaled, rate=0.5)
    out = thinner[0]
    more = R.add(calls, R.const(1, "float32"))
    return (out, more)
"""
BACKBONE = parse_backbone(BODY, param_num=1, state_num=1, x=(8, 6), w=(6,), calls=())

FUNCTION = parse_flow("thin = R.nn.dropout(x, rate=0.5)\nout = thin[0]\nreturn out", x=(3,))


def train_mod() -> IRModule:
    return SetupTrainer(MSELoss(), SGD(0.1), [SCORES, SCORES])(BACKBONE)


MOD = train_mod()
VM = VirtualMachine(build(MOD))


def trainer(seed: int | None = None) -> Trainer:
    made = Trainer(MOD, VM)
    made.load_params([np.ones(6, "float32")])
    if seed is not None:
        made.seed(seed)
    return made


def batch(seed: int) -> tuple[Any, Any]:
    x = np.random.default_rng(seed).uniform(1, 2, (8, 6)).astype("float32")
    return x, np.zeros_like(x)


def test_the_training_form_as_a_script() -> None:
    body = """
        first = R.random.fold_in(key, 0)
        kept = R.random.bernoulli(first, 0.5, R.shape([3]))
        mask = R.where(kept, R.const(2, "float32"), R.const(0, "float32"))
        masked = R.multiply(x, mask)
        thin = (masked, mask)
        out = thin[0]
        key_new = R.random.fold_in(key, 1)
        return (out, key_new)
    """
    expected = parse_flow(body, x=(3,), key='R.Tensor((), "key<fry>")')
    assert_structural_equal(MutateOpsForTraining()(FUNCTION), expected)
    assert_structural_equal(DecomposeOpsForTraining("main")(FUNCTION), expected)


def test_a_function_may_hold_a_key_of_that_name_already() -> None:
    renamed = parse_module(str(FUNCTION.script()).replace("x", "key"))
    params = MutateOpsForTraining()(renamed)["main"].params
    assert [param.name for param in params] == ["key", "key1"]


def test_an_operator_of_ones_own_may_draw() -> None:
    """Its training form says so by a keyword `key`."""

    def noisy(data: Expr, *, key: Expr) -> Expr:
        return data + get_op("relax.random.normal")(key, (3,))

    @op("test.noise", lower=lambda data: data, training_form=noisy)
    def noise(data: TensorType) -> TensorType:
        """Noise, in training only."""
        return data

    try:
        builder = BlockBuilder()
        x = Var("x", TensorType((3,), "float32"))
        with builder.function("main", x):
            with builder.dataflow():
                out = builder.emit_output(noise(x))
            builder.emit_func_output(out)
        mutated = MutateOpsForTraining()(builder.get())
        key = jax.random.key(0)
        out, _ = to_jax(mutated, "main")(np.zeros(3, "float32"), key)
        expected = jax.random.normal(jax.random.fold_in(key, 0), (3,))
        np.testing.assert_array_equal(out, expected)
    finally:
        del OPS["test.noise"]


def test_about_the_right_share_is_dropped_and_the_mean_stays() -> None:
    mutated = MutateOpsForTraining()(
        parse_module(str(FUNCTION.script()).replace("(3,)", "(4000,)").replace("0.5", "0.2"))
    )
    x = np.ones(4000, "float32")
    out, _ = to_jax(mutated, "main")(x, jax.random.key(0))
    assert np.mean(out == 0) == pytest.approx(0.2, abs=0.02)
    assert set(np.unique(out)) == {0, np.float32(1.25)}


def test_the_key_is_the_last_state_of_the_model() -> None:
    well_formed(MOD)
    assert MOD.attrs["state_num"] == 2
    names = [param.name for param in MOD["backbone_loss_adjoint"].params]
    assert names == ["x", "w", "calls", "key", "targets"]
    assert [param.name for param in MOD["backbone"].params] == ["x", "w", "calls", "key"]
    assert_structural_equal(from_source(MOD.script()), MOD)


def test_a_step_is_that_of_jax_with_the_same_key() -> None:
    made = trainer(seed=3)
    key = made.export_states()["key"]
    x, y = batch(0)

    def loss(w: Any) -> Any:
        kept = [
            jax.random.bernoulli(jax.random.fold_in(key, i), jnp.float32(share), (8, 6))
            for i, share in enumerate((0.75, 0.5))
        ]
        masks = [jnp.where(kept[0], 4 / 3, 0.0), jnp.where(kept[1], 2.0, 0.0)]
        return jnp.mean((x * masks[0] * w[None] * masks[1] - y) ** 2)

    value, gradient = jax.jit(jax.value_and_grad(loss))(jnp.ones(6))
    np.testing.assert_allclose(float(made.update(x, y)), value, rtol=1e-6)
    np.testing.assert_allclose(made.export_params()["w"], 1 - 0.1 * gradient, rtol=1e-6)
    states = made.export_states()
    assert states["calls"] == 1
    assert jax.random.key_data(states["key"]).tolist() == (
        jax.random.key_data(jax.random.fold_in(key, 2)).tolist()
    )


def test_each_step_draws_anew_and_a_seed_decides_what() -> None:
    x, y = batch(0)
    made = trainer(seed=1)
    first = float(made.update(x, y))
    made.load_params([np.ones(6, "float32")])
    assert float(made.update(x, y)) != first
    assert float(trainer(seed=1).update(x, y)) == first
    assert float(trainer(seed=2).update(x, y)) != first
    assert float(trainer().update(x, y)) == float(trainer(seed=0).update(x, y))


def test_inference_drops_nothing_and_leaves_the_key_alone() -> None:
    made = trainer()
    x, _ = batch(0)
    np.testing.assert_array_equal(made.predict(x), x)


def test_keys_are_loaded_and_go_through_checkpoints(tmp_path: Path) -> None:
    made, other = trainer(), trainer(seed=9)
    made.load_states({"key": jax.random.key(5)})
    made.update(*batch(0))
    made.save(tmp_path / "model")
    other.load(tmp_path / "model")
    assert float(made.update(*batch(1))) == float(other.update(*batch(1)))
    numbers = np.asarray(jax.random.key_data(jax.random.key(5)))
    made.load_states({"key": numbers})
    np.testing.assert_array_equal(jax.random.key_data(made.export_states()["key"]), numbers)


@pytest.mark.parametrize("steps_per_call", [1, "auto"])
def test_a_resumed_training_draws_what_it_would_have_drawn(
    steps_per_call: Any, tmp_path: Path
) -> None:
    data = [batch(seed) for seed in range(4)]
    options: Any = {"reporter": QUIET, "steps_per_call": steps_per_call}
    whole, first, second = trainer(), trainer(), trainer()
    whole.fit(data, 3, **options)
    run = Checkpoints(tmp_path)
    first.fit(data, 1, checkpoints=run, **options)
    second.fit(data, 3, checkpoints=run, resume=True, **options)
    chex.assert_trees_all_equal(second.export_params(), whole.export_params())


# What is refused


@pytest.mark.parametrize(
    "value", [0, np.zeros(2, "int32"), np.zeros(3, "uint32"), jax.random.key(0, impl="rbg")]
)
def test_what_is_no_key_is_an_error(value: Any) -> None:
    match = r"model state `key` is a random key: give it one, such as jax.random.key\(0\), or the"
    with pytest.raises(TypeError, match=match):
        trainer().load_states({"key": value})


def test_a_file_with_something_else_for_a_key_is_an_error(tmp_path: Path) -> None:
    """A model whose state of that name is no key writes a file of the same names."""
    text = str(MOD.without_attr("optim_state").script())
    assert "key<fry>" in text
    plain = parse_module(str(BACKBONE.script()).replace("calls", "key"))
    other = SetupTrainer(MSELoss(), SGD(0.1), [SCORES, SCORES])(plain)
    states = other["backbone"].params[2:]
    assert [param.name for param in states] == ["key", "key1"]
    Trainer(other, VirtualMachine(build(other))).save(tmp_path / "model")
    match = r"model state `key`: the program has key<fry> .*, the file float32 of shape \(\)"
    with pytest.raises(CheckpointError, match=match):
        trainer().load(tmp_path / "model")
