"""What a trainer refuses: values, batches, models."""

from typing import Any

import numpy as np
import pytest
from small_models import CLASSES, Classifier, batch, classifier, counting

from relaxjax import IRModule, TensorType, VirtualMachine, build
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD
from relaxjax.passes import FuseTrainStep, SetupTrainer
from relaxjax.training import Lines, Trainer

LOSS_ARGS = [TensorType((8, CLASSES), "float32"), TensorType((8,), "int32")]
SHAPES = {"w0": (5, 7), "b0": (7,), "w1": (7, 3), "b1": (3,)}


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
    match = "Parameter w9 is not found in the model: it has `b0`, `b1`"
    with pytest.raises(ValueError, match=match):
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
    match = r"input `x` holds no samples, its shape is \(0, 2\): leave"
    with pytest.raises(ValueError, match=match):
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
        (
            np.ones((4, 2), "timedelta64[s]"),
            r"no numbers of one dtype: .* dtype timedelta64\[s\]; ",
        ),
        (np.ones((4, 2), "V4"), r"no numbers of one dtype: .* dtype \|V4; "),
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
