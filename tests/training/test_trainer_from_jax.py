"""A trainer of a loss in JAX: the loop by hand in JAX and optax, with all that `fit` gives."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from losses_to_train import (
    BATCH,
    PARAMS,
    QUIET,
    STATE,
    batches,
    loss,
    model,
    plain,
    trainer_of_all,
    whole_loss,
)

from relaxjax import Trainer
from relaxjax.ir.check import well_formed
from relaxjax.optim import Adam
from relaxjax.training import Checkpoints, JsonLines, NumericsError, evaluate, load_trainer

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def test_its_module_keeps_all_rules() -> None:
    """No variable is that of two functions, such as of the loss and of what evaluates."""
    well_formed(trainer_of_all(optax.adam(1e-2)).mod)


def test_twenty_steps_are_those_of_optax() -> None:
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))

    @jax.jit
    def step(params: Any, opt: Any, state: Any, key: Any) -> Any:
        key, own = jax.random.split(key)
        both = jax.value_and_grad(whole_loss, has_aux=True)
        (value, (state, _)), gradients = both(params, state, BATCH, own)
        updates, opt = tx.update(gradients, opt, params)
        return optax.apply_updates(params, updates), opt, state, key, value

    trainer = trainer_of_all(tx)
    params, state, key = PARAMS, STATE, jax.random.key(3)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        opt = tx.init(params)
        for _ in range(20):
            params, opt, state, key, value = step(params, opt, state, key)
            chex.assert_trees_all_close(trainer.update(BATCH), value, rtol=1e-6)
    chex.assert_trees_all_close(trainer.params, params, rtol=1e-6, atol=1e-7)
    chex.assert_trees_all_close(trainer.model_state, state, rtol=1e-6, atol=1e-7)
    chex.assert_trees_all_equal_structs(trainer.params, PARAMS)
    assert int(trainer.model_state["calls"]) == 20


@chex.dataclass
class Layer:
    w: Any
    activation: Any
    rate: float
    is_on: bool


@jax.tree_util.register_dataclass
@dataclass
class Model:
    layers: Any
    scale: Any


def test_params_are_any_pytree_and_its_options_stay() -> None:
    def of_model(model: Model, batch: Any) -> Any:
        hidden = batch
        for layer in model.layers:
            assert layer.is_on
            hidden = layer.activation(hidden @ layer.w) * layer.rate
        return jnp.mean(hidden**2) * model.scale["all"]

    make: Any = Layer
    layers = [make(w=jnp.eye(8), activation=f, rate=0.5, is_on=True) for f in (jnp.tanh, jnp.sin)]
    params = Model(layers=layers, scale={"all": 2.0})
    trainer = Trainer.from_jax(of_model, params, optax.sgd(0.1), BATCH["x"])
    before = trainer.params
    trainer.update(BATCH["x"])
    after = trainer.params
    chex.assert_trees_all_equal_structs(after, params)
    assert after.layers[1].activation is jnp.sin
    assert (after.layers[0].rate, after.layers[0].is_on) == (0.5, True)
    assert float(before.scale["all"]) == 2.0 > float(after.scale["all"])
    assert not np.allclose(after.layers[0].w, before.layers[0].w)
    chex.assert_trees_all_close(before.layers[0].w, jnp.eye(8))


def test_fit_measures_what_is_beside_the_loss(tmp_path: Path) -> None:
    trainer = trainer_of_all(Adam(1e-2))
    log = tmp_path / "log.jsonl"
    reports = trainer.fit(
        batches(3), 2, eval_data=batches(2), reporter=QUIET, callbacks=[JsonLines(log)]
    )
    assert reports[1].loss < reports[0].loss
    assert list(reports[1].metrics) == ["eval_loss", "rmse"]
    assert len([json.loads(line) for line in log.read_text().splitlines()]) >= 2

    def most(aux: Any, batch: Any) -> Any:
        assert aux["hidden"].shape == (32, 16)
        return np.abs(batch["y"]).max(-1)

    assert int(trainer.model_state["calls"]) == 6
    found = evaluate(trainer, batches(2), [most])
    wanted = np.mean([np.abs(batch["y"]).max(-1) for batch in batches(2)])
    chex.assert_trees_all_close(found, {"most": float(wanted)}, rtol=1e-5)
    value, aux = trainer.evaluate(BATCH)
    assert value == aux["loss"]
    assert int(trainer.model_state["calls"]) == 6


def test_what_evaluates_is_legalised_when_it_is_asked_for() -> None:
    """And with the parameters as they are then. What trains is as the passes have left it."""
    trainer = Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), BATCH)
    assert "evaluate" not in trainer.vm.executable
    assert "train_step" in trainer.vm.executable
    assert "evaluate" in trainer.mod
    for _ in range(2):
        value, _ = trainer.evaluate(BATCH)
        chex.assert_trees_all_close(value, loss(trainer.params, BATCH), rtol=1e-5)
        trainer.update(BATCH)


def test_a_model_may_be_evaluated_by_another_function_than_its_loss() -> None:
    def evaluation(params: Any, state: Any, batch: Any) -> Any:
        errors = jnp.abs(batch["x"] @ params["w0"])
        return jnp.mean(errors), {"worst": jnp.max(errors), "calls": state["calls"], "all": errors}

    trainer = trainer_of_all(Adam(1e-2), evaluation=evaluation)
    reports = trainer.fit(batches(3), 1, eval_data=batches(2), reporter=QUIET)
    assert list(reports[0].metrics) == ["eval_loss", "worst", "calls"]
    assert reports[0].metrics["calls"] == 3
    few = {"x": BATCH["x"][:5], "mode": "tanh"}  # nested otherwise, and of another size
    value, aux = trainer.evaluate(few)
    wanted, beside = evaluation(trainer.params, trainer.model_state, few)
    chex.assert_trees_all_close((value, aux), (wanted, beside), rtol=1e-5)
    assert evaluate(trainer, [few], [lambda aux, batch: aux["all"].max(-1)]).keys() == {"<lambda>"}


def test_an_evaluation_without_more_is_of_a_loss_alone() -> None:
    trainer = plain(evaluation=lambda params, batch: jnp.mean(batch["x"]))
    value, beside = trainer.evaluate(BATCH)
    chex.assert_trees_all_close(value, jnp.mean(BATCH["x"]), rtol=1e-5)
    assert beside is None
    empty = jax.tree.map(lambda one: one[:0], BATCH)
    with pytest.raises(ValueError, match=r"^the batch holds no samples, its arrays have the shape"):
        trainer.evaluate(empty)


def test_complex_numbers_and_random_keys_beside_a_loss_are_no_metrics() -> None:
    def with_more(params: Any, batch: Any) -> Any:
        value = loss(params, batch)
        more = {
            "key": jax.random.key(1),
            "phase": jax.lax.complex(value, value),
            "small": value < 1,
        }
        return value, {**more, "twice": 2 * value}

    trainer = Trainer.from_jax(with_more, PARAMS, optax.sgd(0.0), BATCH, has_aux=True)
    reports = trainer.fit([BATCH], 1, eval_data=[BATCH], reporter=QUIET)
    assert list(reports[0].metrics) == ["eval_loss", "small", "twice"]
    chex.assert_trees_all_equal(trainer.evaluate(BATCH)[1]["key"], jax.random.key(1))


def test_data_may_come_in_any_way_and_many_steps_a_call() -> None:
    one, many = (Trainer.from_jax(loss, PARAMS, Adam(1e-2), BATCH) for _ in range(2))

    def loader(epoch: int) -> Iterator[Any]:
        yield from batches(5)

    one.fit(batches(5), 2, reporter=QUIET, steps_per_call=1)
    many.fit(loader, 2, reporter=QUIET, steps_per_call=4, prefetch=1)
    chex.assert_trees_all_equal(one.params, many.params)
    stacked = jax.tree.map(lambda *each: np.stack(each), *batches(3))
    losses = many.update_many(stacked)
    chex.assert_trees_all_equal(losses, jnp.stack([one.update(batch) for batch in batches(3)]))


@pytest.mark.parametrize("optimizer", [Adam(1e-2), optax.adamw(1e-2)], ids=["ours", "optax"])
def test_a_training_goes_on_bit_for_bit(tmp_path: Path, optimizer: Any) -> None:
    class BrokenOffError(Exception):
        pass

    def broken(epoch: int) -> Iterator[Any]:
        for place, batch in enumerate(batches(5)):
            if (epoch, place) == (1, 3):
                raise BrokenOffError
            yield batch

    def trained(folder: str, data: Any, resume: bool = False) -> Trainer:
        trainer = trainer_of_all(optimizer)
        checkpoints = Checkpoints(tmp_path / folder, every=2)
        trainer.fit(data, 3, reporter=QUIET, checkpoints=checkpoints, resume=resume)
        return trainer

    whole = trained("whole", batches(5))
    with pytest.raises(BrokenOffError):
        trained("parts", broken)
    parts = trained("parts", batches(5), resume=True)
    chex.assert_trees_all_equal(parts.params, whole.params)
    chex.assert_trees_all_equal(parts.model_state, whole.model_state)
    path = tmp_path / "saved.safetensors"
    whole.save(path)
    again = trainer_of_all(optimizer)
    again.load(path)
    assert again.update(BATCH) == whole.update(BATCH)
    alone = load_trainer(path)
    assert alone.update([BATCH["x"], BATCH["y"]], []) == parts.update(BATCH)
    with pytest.raises(ValueError, match=r"only a loss from JAX: make its trainer again by"):
        alone.predict(BATCH["x"])
    with pytest.raises(AttributeError, match=r"no attribute `params`: write trainer.export_params"):
        alone.params  # noqa: B018  # asking is what is tested


def test_the_forward_function_predicts_for_any_inputs() -> None:
    def forward(params: Any, state: Any, inputs: Any, shift: Any) -> Any:
        return {"scores": model(params, inputs["x"]) + state["mean"].sum() + shift}

    trainer = trainer_of_all(optax.adam(1e-2), forward=forward)
    trainer.update(BATCH)
    trainer.update(BATCH)
    found = trainer.predict({"x": BATCH["x"][:5]}, 1.0)
    wanted = model(trainer.params, BATCH["x"][:5]) + trainer.model_state["mean"].sum() + 1.0
    chex.assert_trees_all_close(found, {"scores": wanted}, rtol=1e-5, atol=1e-6)


def test_the_forward_function_takes_options_among_its_inputs() -> None:
    def forward(params: Any, inputs: Any) -> Any:
        scores = model(params, inputs["x"])
        return jnp.tanh(scores) if inputs["mode"] == "bounded" else scores

    trainer = plain(forward=forward)
    found = [trainer.predict({"x": BATCH["x"], "mode": mode}) for mode in ("bounded", "free")]
    chex.assert_trees_all_close(found[0], jnp.tanh(found[1]), rtol=1e-5)


def test_a_summary_is_that_of_the_loss() -> None:
    summary = plain().summary()
    assert [layer.params for layer in summary.layers] == [
        ("params_w0",), ("params_b0",), ("params_w1",),
    ]  # fmt: skip
    assert summary.param_numbers == sum(array.size for array in PARAMS.values())


def test_a_loss_that_is_not_finite_names_its_line() -> None:
    def bad(params: Any, batch: Any) -> Any:
        logarithm = jnp.log(batch["x"] @ params["w0"] - 1e6)
        return jnp.mean(logarithm)

    trainer = Trainer.from_jax(bad, PARAMS, optax.sgd(0.1), BATCH)
    with pytest.raises(NumericsError, match=r"step 1: the loss is nan(.|\n)*logarithm = jnp.log"):
        trainer.fit([BATCH], check_numerics=True, reporter=QUIET)
    with pytest.raises(NumericsError, match=r"logarithm = jnp.log"):
        trainer.check_numerics(BATCH)
    chex.assert_trees_all_equal(trainer.params, PARAMS)


def images_loss(params: Any, batch: Any) -> Any:
    """In the layout NCHW, with four equal layers behind the convolutions."""
    hidden = batch
    for kernel in params["kernels"]:
        hidden = jax.nn.relu(jax.lax.conv_general_dilated(hidden, kernel, (1, 1), "SAME"))
    hidden = jnp.mean(hidden, (2, 3))
    for layer in params["layers"]:
        hidden = hidden + jax.nn.gelu(hidden @ layer["w"] + layer["b"][None])
    return jnp.mean(hidden**2)


def test_parameters_are_stored_as_the_step_reads_them() -> None:
    keys = jax.random.split(jax.random.key(1), 6)
    layers = [{"w": jax.random.normal(k, (16, 16)) / 4, "b": jnp.zeros(16)} for k in keys[:4]]
    kernels = [jax.random.normal(keys[4], (16, n, 3, 3)) / 8 for n in (3, 16)]
    params = {"kernels": kernels, "layers": layers}
    batch = jax.random.normal(keys[5], (2, 3, 16, 16))
    stored = Trainer.from_jax(images_loss, params, Adam(1e-2), batch, roll_blocks=True)
    plain = Trainer.from_jax(
        images_loss, params, Adam(1e-2), batch, roll_blocks=False, channels_last=False
    )
    storage = stored.layout.storage["params"]
    assert [len(stack) for stack in storage.stacks] == [4, 4]
    assert [place.order for place in storage.places if place.order] == [(2, 3, 1, 0)] * 2
    assert plain.layout.storage["params"].is_apart
    for _ in range(3):
        chex.assert_trees_all_close(stored.update(batch), plain.update(batch), rtol=1e-5)
    chex.assert_trees_all_close(stored.params, plain.params, rtol=1e-3, atol=1e-5)
    assert "params_layers_2_w" in stored.export_params()


def test_memory_is_planned_for_the_whole_step() -> None:
    def deep(params: Any, batch: Any) -> Any:
        hidden = batch
        for weight in params:
            hidden = jax.nn.gelu(hidden @ weight)
        return jnp.mean(hidden**2)

    weights, rows = [jnp.ones((64, 64)) / 64] * 3, np.ones((512, 64), "float32")
    tx = optax.adam(1e-3)
    kept = Trainer.from_jax(deep, weights, tx, rows, memory_policy="none")
    planned = Trainer.from_jax(deep, weights, tx, rows, memory_budget="80%")
    most = kept.temporary_bytes(rows)
    least = planned.temporary_bytes(rows)
    assert most is not None
    assert least is not None
    assert least <= 0.8 * most
    chex.assert_trees_all_close(planned.update(rows), kept.update(rows), rtol=1e-5)


def test_half_precision_with_masters_and_a_scaled_loss() -> None:
    half, batch = (
        jax.tree.map(lambda array: jnp.asarray(array, "bfloat16"), x) for x in (PARAMS, BATCH)
    )
    trainer = Trainer.from_jax(loss, half, optax.sgd(1e-4), batch, loss_scale="dynamic")
    first = [float(trainer.update(batch)) for _ in range(40)]
    assert first[-1] < first[0]
    assert trainer.loss_scale is not None
    assert trainer.params["w0"].dtype == "bfloat16"
    states = {str(var.ty) for var in trainer.layout.optimizer.vars}
    assert 'R.Tensor((8, 16), dtype="float32")' in states


def test_an_export_trains_without_this_package(tmp_path: Path) -> None:
    trainer = trainer_of_all(optax.adam(1e-2))
    trainer.export(tmp_path)
    names: dict[str, Any] = {"__name__": "model", "__file__": str(tmp_path / "model.py")}
    exec((tmp_path / "model.py").read_text(), names)
    alone = names["Model"](tmp_path)
    found = [alone.train_step([BATCH["x"], BATCH["y"]], []) for _ in range(3)]
    chex.assert_trees_all_close(found, [trainer.update(BATCH) for _ in range(3)], rtol=1e-6)
    with pytest.raises(ValueError, match="only a loss was exported"):
        alone.predict(BATCH["x"])


def test_arrays_are_taken_as_jax_takes_them() -> None:
    example = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in BATCH.items()}
    trainer = Trainer.from_jax(loss, PARAMS, optax.sgd(0.0), example)
    wide = jax.tree.map(lambda array: array.astype("float64"), BATCH)
    chex.assert_trees_all_close(trainer.update(wide), loss(PARAMS, BATCH), rtol=1e-5)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_key_given_as_numbers_is_another_one_after_a_step_that_is_left_out(
    accumulate: int,
) -> None:
    def noisy(params: Any, batch: Any, key: Any) -> Any:
        numbers = (
            jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        )
        return jnp.mean((batch @ params + jax.random.normal(key, ())) ** 2), numbers[None]

    good, bad = np.ones((4, 2), "float32"), np.full((4, 2), np.nan, "float32")
    found = []
    for key in (jax.random.key(1), jax.random.PRNGKey(1), np.array([0, 1], "uint32")):
        options: Any = {"key": key, "loss_scale": 2.0, "accumulate": accumulate}
        sgd = optax.sgd(0.1)
        trainer = Trainer.from_jax(noisy, jnp.ones(2), sgd, good, has_aux=True, **options)
        used = []
        for batch in (good, bad, good):
            used.append(np.asarray(trainer.evaluate(batch)[1]))
            trainer.update(batch)
        assert len({numbers.tobytes() for numbers in used}) == 3
        found.append((used, trainer.params))
    chex.assert_trees_all_equal(found[0], found[1], found[2])


def test_who_prints_is_told_that_steps_leave_it_out() -> None:
    def loud(params: Any, batch: Any) -> Any:
        value = loss(params, batch)
        jax.debug.print("the loss is {}", value)
        return value

    with pytest.warns(UserWarning, match="which the steps of a trainer leave out") as found:
        trainer = Trainer.from_jax(loud, PARAMS, optax.sgd(0.0), BATCH)
    assert found[0].filename == __file__
    chex.assert_trees_all_close(trainer.update(BATCH), loss(PARAMS, BATCH), rtol=1e-5)
