"""The trainer: its parameters and states, its steps, and what it refuses."""

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
from small_models import CLASSES, Classifier, batch, classifier, counting, trainable

from relaxjax.ir import IRModule, TensorType
from relaxjax.ir.expr import np_dtype
from relaxjax.losses import CrossEntropyLoss, MSELoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD, MomentumSGD
from relaxjax.passes import FuseTrainStep, SetupTrainer
from relaxjax.training import Lines, Trainer

LOSS_ARGS = [TensorType((8, CLASSES), "float32"), TensorType((8,), "int32")]
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
    mod = trainable(model, MSELoss(), MomentumSGD(0.1, 0.5), scores, scores)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.load_params({"w": np.ones(2)})
    return trainer


# What it refuses


def test_an_uninitialised_parameter_is_an_error() -> None:
    trainer = classifier(zero_init_param_state=False)
    match = "The 0-th parameter is not initialized before training or inference: give `w0`"
    with pytest.raises(RuntimeError, match=match):
        trainer.update(*batch(0))
    with pytest.raises(RuntimeError, match=match):
        trainer.fit([batch(0)])
    with pytest.raises(RuntimeError, match=match):
        trainer.temporary_bytes(*batch(0))
    trainer.load_params({"w0": np.zeros(SHAPES["w0"], "float32")})
    with pytest.raises(RuntimeError, match="The 1-th parameter is not initialized"):
        trainer.predict(batch(0)[0])
    with pytest.raises(RuntimeError, match=r"The 1-th parameter .* before exporting"):
        trainer.export_params()


def test_an_uninitialised_state_is_an_error() -> None:
    trainer = counting(zero_init_param_state=False)
    trainer.zero_init_params()
    x = np.ones((1, 2), "float32")
    with pytest.raises(RuntimeError, match="The 0-th model state is not initialized"):
        trainer.update(x, x)


def test_the_wrong_number_of_inputs_is_an_error() -> None:
    trainer = classifier()
    x, labels = batch(0)
    match = r"length of the inputs does not match the backbone: it takes `x`, but 2 were given"
    with pytest.raises(ValueError, match=match):
        trainer.predict(x, x)
    with pytest.raises(ValueError, match=match):
        trainer.update([x, x], labels)


def test_the_wrong_number_of_targets_is_an_error() -> None:
    x, labels = batch(0)
    match = "length of the targets does not match the loss: it takes `targets`, but 2 were given"
    with pytest.raises(ValueError, match=match):
        classifier().update(x, [labels, labels])


def test_an_input_of_the_wrong_shape_is_an_error_that_names_it() -> None:
    """And it leaves the trainer as it was."""
    trainer = classifier()
    x, labels = batch(0)
    with pytest.raises((TypeError, ValueError), match="`x`"):
        trainer.update(x[:, :-1], labels)
    with pytest.raises((TypeError, ValueError), match="`targets`"):
        trainer.update(x, labels[:-1])
    with pytest.raises((TypeError, ValueError), match="`x`"):
        trainer.predict(x[:, :-1])
    trainer.update(x, labels)


def test_an_input_of_the_wrong_dtype_is_an_error_that_names_it() -> None:
    x, labels = batch(0)
    match = (
        r'target `targets` is of dtype int32, .* float64 and would change: .*\.astype\("int32"\)'
    )
    with pytest.raises(TypeError, match=match):
        classifier().update(x, labels + 0.5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_no_integer_can_hold_is_an_error(value: float) -> None:
    x, labels = batch(0)
    with pytest.raises(TypeError, match="target `targets` is of dtype int32"):
        classifier().update(x, np.full(labels.shape, value))


def test_a_parameter_of_the_wrong_shape_is_an_error_with_both_shapes() -> None:
    trainer = classifier()
    match = r"parameter `w0` is of type R.Tensor\(\(5, 7\), .* array of shape \(7, 5\) was given"
    with pytest.raises(ValueError, match=match):
        trainer.load_params({"w0": np.zeros((7, 5), "float32")})


def test_a_parameter_of_the_wrong_dtype_is_an_error() -> None:
    with pytest.raises(TypeError, match="parameter `b1` is of dtype float32"):
        classifier().load_params({"b1": np.full(3, 0.1)})


def test_the_wrong_number_of_parameters_is_an_error() -> None:
    match = "length of extern parameters is 1, which does not match the number of parameters 4"
    with pytest.raises(ValueError, match=match):
        classifier().load_params([np.zeros((5, 7), "float32")])
    match = "length of extern model states is 0, .* the number of model states 1"
    with pytest.raises(ValueError, match=match):
        counting().load_states([])


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(
        ValueError, match="Parameter w9 is not found in the model: it has `b0`, `b1`"
    ):
        classifier().load_params({"w9": np.zeros(1)})
    with pytest.raises(ValueError, match="Model state w is not found in the model: it has `calls`"):
        counting().load_states({"w": np.zeros(1)})
    with pytest.raises(ValueError, match="Model state w is not found in the model: it has none"):
        classifier().load_states({"w": np.zeros(1)})


def test_values_must_come_in_a_list_or_by_name() -> None:
    with pytest.raises(ValueError, match=r"extern_params should be either list or dict, .* int"):
        classifier().load_params(3)  # type: ignore[arg-type]  # the very point of the test
    with pytest.raises(ValueError, match=r"extern_states should be either list or dict, .* str"):
        classifier().load_states("calls")


def test_a_model_that_is_no_module_is_an_error() -> None:
    match = r"a trainer takes an IRModule, found int: apply SetupTrainer\(loss, optimizer"
    with pytest.raises(TypeError, match=match):
        Trainer(3, classifier().vm)  # type: ignore[arg-type]  # the very point of the test


def test_an_executable_is_no_virtual_machine() -> None:
    trainer = classifier()
    with pytest.raises(TypeError, match=r"`vm` is of type Executable: write VirtualMachine\(build"):
        Trainer(trainer.mod, trainer.vm.executable)  # type: ignore[arg-type]  # the very point


def test_a_module_that_is_not_trainable_is_an_error() -> None:
    trainer = classifier()
    with pytest.raises(ValueError, match="no function `backbone_loss_adjoint`: apply SetupTrainer"):
        Trainer(as_module(Classifier), trainer.vm)
    for name in ("input_num", "param_num", "state_num"):
        with pytest.raises(ValueError, match=f"attribute `{name}` is None and no integer: apply"):
            Trainer(trainer.mod.without_attr(name), trainer.vm)
    with pytest.raises(ValueError, match="no attribute `optim_state`: apply SetupTrainer"):
        Trainer(trainer.mod, trainer.vm)


def test_a_module_of_tvms_takes_the_fused_step_and_has_no_loss_to_evaluate() -> None:
    """It has the four functions that TVM's SetupTrainer makes."""
    made = classifier()
    train_mod = SetupTrainer(CrossEntropyLoss(), SGD(0.1), LOSS_ARGS)(as_module(Classifier))
    four = train_mod.without_functions("train_step", "evaluate")
    match = r"the module has no function `train_step`: apply FuseTrainStep\(\) to it first"
    with pytest.raises(ValueError, match=match):
        Trainer(four, made.vm)
    fused = FuseTrainStep()(four)
    trainer = Trainer(fused, VirtualMachine(build(fused)))
    trainer.xavier_uniform_init_params(seed=0)
    (report,) = trainer.fit([batch(0)], 1, [batch(1)], Lines(lambda line: None))
    (expected,) = made.fit([batch(0)], 1, [batch(1)], Lines(lambda line: None))
    assert report.loss == pytest.approx(expected.loss)
    assert list(report.metrics) == ["accuracy"]


def as_module(mod: Any) -> IRModule:
    assert isinstance(mod, IRModule)
    return mod


def test_a_batch_without_samples_is_an_error() -> None:
    """Its mean would be NaN, and so would all parameters after it."""
    nothing = np.zeros((0, 2), "float32")
    with pytest.raises(
        ValueError, match=r"input `x` holds no samples, its shape is \(0, 2\): leave"
    ):
        counting().update(nothing, nothing)


@pytest.mark.parametrize("options", [{}, {"steps_per_call": 1}, {"steps_per_call": 2}])
def test_a_last_batch_that_is_too_small_for_the_model_is_an_error(options: Any) -> None:
    """What to do about it stands in the message, which comes at the end of an epoch."""
    inputs, targets = batch(0)
    small = (inputs[:3], targets[:3])
    match = (
        rf"input `x` holds 3 samples, but the model takes {len(inputs)} at once: "
        "leave out a last batch that is smaller, by drop_last=True of the loader, or let "
        f'the model take any number, with a dimension such as "n" for the {len(inputs)}'
    )
    trainer = classifier()
    with pytest.raises(ValueError, match=match):
        trainer.fit([batch(0), small], reporter=Lines(lambda line: None), **options)
    with pytest.raises(TypeError, match="dimension 1 of `x` must be"):
        trainer.update(inputs[:, :1], targets)
    with pytest.raises(TypeError, match="`x` must have 2 dimensions, found 1"):
        trainer.update(inputs[0], targets[0])
    with pytest.raises(TypeError, match="`x` must have 2 dimensions, found 0"):
        trainer.update(1, targets)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (np.ma.masked_array(np.ones((4, 2), "float32"), True), "is a masked array, whose mask"),
        (np.ones((4, 2), "complex64"), "are complex: give their real parts by .real, or what else"),
        (
            np.ma.masked_array(np.ones((4, 2)), True),
            r"be lost: give .* by \.filled\(\.\.\.\), such",
        ),
        (np.full((4, 2), "1"), r"of dtype float32, but .* no numbers of one dtype: .* dtype <U1; "),
        (np.array([[None, 1]]), r'has dtype object; make them numbers, as by .astype\("float32"\)'),
    ],
)
def test_what_holds_no_plain_numbers_is_an_error(value: Any, match: str) -> None:
    with pytest.raises(TypeError, match=f"input `x` .*{match}"):
        classifier().predict(value)


def test_a_list_of_samples_is_an_error_that_says_what_lists_are() -> None:
    x, labels = batch(0)
    match = f"but {len(x)} were given; a list is one of several arrays, so make a list of samples"
    with pytest.raises(ValueError, match=match):
        classifier().update(list(x), labels)
