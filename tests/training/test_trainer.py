"""The trainer: its parameters and states, and its steps."""

import copy
import pickle
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_backbone
from small_models import CLASSES, batch, classifier, counting, trainer_of

from relaxjax import TensorType, Trainer
from relaxjax.ir.expr import np_dtype
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD, MomentumSGD

SHAPES = {"w0": (5, 7), "b0": (7,), "w1": (7, 3), "b1": (3,)}


def shapes(arrays: dict[str, jax.Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


# Parameters and states


def test_parameters_and_states_start_at_zero() -> None:
    made, states = classifier(zero_init_param_state=True), counting().export_states()
    params = made.export_params()
    assert shapes(params) == SHAPES
    assert not any(np.any(array) for array in params.values())
    assert not np.any(states["calls"])


def test_it_tells_what_it_trains() -> None:
    trainer = classifier()
    assert repr(trainer) == (
        '<Trainer of backbone(x: R.Tensor((8, 5), dtype="float32")): 4 parameters of 66 numbers, '
        f"0 states, on {trainer.device}>"
    )
    assert "1 parameter of 2 numbers, 1 state, on " in repr(counting())


def test_what_has_another_name_elsewhere() -> None:
    message = (
        r"^a Trainer has no attribute `update_params`: write trainer\.update\(inputs, targets\)$"
    )
    with pytest.raises(AttributeError, match=message):
        classifier().update_params()
    with pytest.raises(AttributeError, match=r"^a Trainer has no attribute `fly`$"):
        classifier().fly()


def test_xavier_draws_within_its_bound_and_repeats_itself() -> None:
    trainer = classifier()
    trainer.xavier_uniform_init_params(seed=3)
    first = trainer.export_params()
    for name, array in first.items():
        bound = np.sqrt(6 / sum(SHAPES[name]))
        assert 0.5 * bound < np.abs(array).max() <= bound
    trainer.xaiver_uniform_init_params(seed=3)
    chex.assert_trees_all_equal(first, trainer.export_params())
    trainer.xavier_uniform_init_params(seed=4)
    assert np.any(trainer.export_params()["w0"] != first["w0"])


def test_parameters_are_loaded_by_list_and_by_name() -> None:
    trainer = classifier()
    trainer.load_params([np.full(shape, 2, "float32") for shape in SHAPES.values()])
    trainer.load_params({"b1": jnp.ones(3)})
    params = trainer.export_params()
    assert np.all(params["w0"] == 2)
    assert np.all(params["b1"] == 1)


def test_states_are_loaded_by_list_and_by_name() -> None:
    trainer = counting()
    trainer.load_states([np.float32(3)])
    assert trainer.export_states()["calls"] == 3
    trainer.load_states({"calls": np.float32(4)})
    assert trainer.export_states()["calls"] == 4


def test_values_of_another_dtype_are_taken_where_nothing_is_lost() -> None:
    trainer = classifier()
    trainer.load_params({"b1": np.array([1.0, 2.0, 0.5], "float64")})
    assert trainer.export_params()["b1"].dtype == "float32"
    x, labels = batch(0)
    expected = trainer.predict(x)
    loss = float(trainer.update(x, labels.astype("float32")))
    assert np.isfinite(loss)
    assert expected.shape == (len(x), CLASSES)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_trainer_is_not_copied(copied: Any) -> None:
    with pytest.raises(TypeError, match=r"neither copied nor pickled, .* by `save` and `load`, or"):
        copied(classifier())


def test_what_is_loaded_and_exported_is_a_copy() -> None:
    """A step donates the trainer's own arrays; those of the caller must survive."""
    trainer = classifier()
    mine = {name: jnp.ones(shape) for name, shape in SHAPES.items()}
    host = aligned_ones(3)
    trainer.load_params({**mine, "b1": host})
    host[:] = 9
    exported = trainer.export_params()
    trainer.update(*batch(0))
    chex.assert_trees_all_equal(mine, exported)


def aligned_ones(size: int) -> Any:
    """Host memory that JAX would take as it is, without copying it."""
    memory = np.zeros(4 * size + 64, "uint8")
    start = -memory.ctypes.data % 64
    array = memory[start : start + 4 * size].view("float32")
    array[:] = 1
    return array


# Steps


def test_update_learns() -> None:
    trainer = classifier(SGD(0.5))
    trainer.xavier_uniform_init_params()
    losses = [float(trainer.update(*batch(0))) for _ in range(50)]
    assert losses[-1] < 0.5 * losses[0]


def test_a_step_gives_its_memory_back() -> None:
    trainer = classifier()
    before = trainer._state.params
    trainer.update(*batch(0))
    assert all(array.is_deleted() for array in before)


def test_update_does_not_change_when_inputs_come_in_lists() -> None:
    one, other = classifier(), classifier()
    for trainer in (one, other):
        trainer.xavier_uniform_init_params()
    x, labels = batch(0)
    one.update(x, labels)
    other.update([x], [labels])
    chex.assert_trees_all_equal(one.export_params(), other.export_params())


def test_states_move_on_and_the_gradient_is_that_of_the_loss_alone() -> None:
    """With a second output between the prediction and the state."""
    trainer = counting()
    trainer.load_params({"w": np.array([1, 2], "float32")})
    x = np.array([[1, 1], [2, 0]], "float32")
    loss = trainer.update(x, np.zeros((2, 2), "float32"))
    assert float(loss) == 9.0
    expected = [1 - 0.1 * 10, 2 - 0.1 * 4]
    np.testing.assert_allclose(trainer.export_params()["w"], expected, rtol=1e-6, atol=1e-6)
    trainer.update(x, x)
    assert trainer.export_states()["calls"] == 2


def test_predict_leaves_the_states_out_and_alone() -> None:
    trainer = counting()
    trainer.load_params({"w": np.array([1, 2], "float32")})
    x = np.array([[1, 1]], "float32")
    out, twice = trainer.predict(x)
    np.testing.assert_array_equal(out, [[1, 2]])
    np.testing.assert_array_equal(twice, [[2, 2]])
    assert trainer.export_states()["calls"] == 0


def test_predict_gives_a_single_output_bare() -> None:
    trainer = classifier()
    scores = trainer.predict(batch(0)[0])
    assert isinstance(scores, jax.Array)
    assert scores.shape == (8, CLASSES)


def test_a_symbolic_batch_takes_any_size() -> None:
    trainer = counting()
    for size in (1, 3):
        x = np.ones((size, 2), "float32")
        trainer.update(x, x)
        assert trainer.predict(x)[0].shape == (size, 2)
    assert trainer.batch_size is None
    assert classifier().batch_size == 8


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("x64", [False, True])
def test_models_of_every_floating_point_dtype(dtype: str, x64: bool, tmp_path: Path) -> None:
    """Whatever JAX's own setting of 64-bit dtypes is."""
    with jax.enable_x64(x64):
        trainer = linear(dtype)
        x = np.ones((4, 2), np_dtype(dtype))
        losses = [float(trainer.update(x, np.zeros((4, 2), x.dtype))) for _ in range(3)]
        assert losses[0] > losses[1] > losses[2]
        assert trainer.export_params()["w"].dtype == dtype
        assert trainer.predict(x).dtype == dtype
        trainer.save(tmp_path / "model")
        linear(dtype).load(tmp_path / "model")


def linear(dtype: str) -> Trainer:
    """A trainer of `x * w`, by the squared error, with momentum."""
    params = f'x: R.Tensor((4, 2), "{dtype}"), w: R.Tensor((2,), "{dtype}")'
    model = parse_backbone("out = R.multiply(x, w)", params, param_num=1)
    scores = TensorType((4, 2), dtype)
    trainer = trainer_of(model, MSELoss(), MomentumSGD(0.1, 0.5), scores, scores)
    trainer.load_params({"w": np.ones(2)})
    return trainer
