"""Models that PyTorch exported: the same outputs, states and gradients, and training with them."""

from pathlib import Path

import numpy as np
import pytest
from torch_comparison import TOLERANCES, compared

import relaxjax
from relaxjax.losses import CrossEntropyLoss, MSELoss
from relaxjax.optim import SGD
from relaxjax.torch import ImportedModel, from_torch

FILES = Path(__file__).parent / "files"


def read(name: str) -> ImportedModel:
    return from_torch(FILES / f"{name}.pt2")


@pytest.mark.filterwarnings("ignore:.* went through `run_decompositions")
@pytest.mark.parametrize(
    "name",
    [
        *("block", "block_functional", "cnn", "encoder", "encoder_functional", "masked"),
        *("strided", "tied"),
    ],
)
def test_outputs_states_and_gradients_are_those_of_torch(name: str) -> None:
    arrays = dict(np.load(FILES / f"{name.removesuffix('_functional')}.npz"))
    row = compared(FILES / f"{name}.pt2", arrays, TOLERANCES["float32"])
    assert row["equal"], row


def test_a_decomposed_program_is_warned_of() -> None:
    message = (
        r"block_functional\.pt2` went through `run_decompositions\(\)`, which forgets `detach`"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        read("block_functional")
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]


def test_a_model_has_the_names_of_torch() -> None:
    model = read("cnn")
    assert [param.name for param in model.mod["backbone"].params][:2] == ["images", "more_bias"]
    assert model.names["norm.running_mean"] == "norm_running_mean"
    assert list(model.params) == [
        "conv_weight",
        "norm_weight",
        "norm_bias",
        "linear_weight",
        "linear_bias",
    ]
    assert "frozen" in model.states
    assert "mask" not in model.names
    assert model.ranges == {"n": (2, 64)}
    assert [str(ty) for ty in model.outputs] == [
        'R.Tensor((n, 6), dtype="float32")',
        'R.Tensor((), dtype="float32")',
    ]


def test_tied_weights_are_one_parameter_under_both_names() -> None:
    model = read("tied")
    assert model.names["out.weight"] == model.names["embedding.weight"] == "embedding_weight"


def test_a_model_trains_and_gives_its_weights_back() -> None:
    model = read("cnn")
    trainer = model.trainer(CrossEntropyLoss(), SGD(0.1))
    random = np.random.default_rng(0)
    images = random.normal(size=(8, 1, 8, 8)).astype("float32")
    batch = [images, np.zeros((8, 6), "float32")], np.arange(8) % 6
    losses = [float(trainer.update(*batch)) for _ in range(20)]
    assert losses[-1] < losses[0]
    arrays = model.state_dict(trainer)
    assert set(arrays) == set(model.names)
    assert arrays["norm.num_batches_tracked"] == 20
    assert not np.array_equal(arrays["conv.weight"], model.params["conv_weight"])
    np.testing.assert_array_equal(arrays["frozen"], model.states["frozen"])


def test_tied_weights_go_back_under_both_names() -> None:
    model = read("tied")
    arrays = model.state_dict(model.trainer(CrossEntropyLoss(), SGD(0.1)))
    np.testing.assert_array_equal(arrays["out.weight"], arrays["embedding.weight"])


def test_a_trainer_starts_with_the_weights_of_torch() -> None:
    model = read("encoder")
    arrays = dict(np.load(FILES / "encoder.npz"))
    trainer = model.trainer(MSELoss(), SGD(0.1))
    found = trainer.predict(arrays["input 0"])
    np.testing.assert_allclose(found, arrays["output 0"], rtol=1e-4, atol=1e-5)


def test_a_model_of_fixed_sizes_is_planned_for_a_budget() -> None:
    model = read("block").with_sizes(n=32)
    assert model.ranges == {}
    assert [str(ty) for ty in model.outputs] == ['R.Tensor((32, 4), dtype="float32")']
    batch = np.zeros((32, 1, 8, 8), "float32"), np.zeros(32, "int64")
    trainer = model.trainer(CrossEntropyLoss(), SGD(0.1), memory_budget="1MB")
    assert (trainer.temporary_bytes(*batch) or 0) < 2**20


def test_a_size_that_torch_did_not_export_for() -> None:
    match = r"`n` is to be 65, but .* exported the model for n \(2 to"
    with pytest.raises(ValueError, match=match):
        read("cnn").with_sizes(n=65)


@pytest.mark.parametrize(
    ("name", "listed"), [("cnn", r"those are n \(2 to 64\)"), ("dropout", "all of them are fixed")]
)
def test_a_size_that_is_not_open(name: str, listed: str) -> None:
    with pytest.raises(ValueError, match=f"no size `batch` that is left open: {listed}"):
        read(name).with_sizes(batch=8)


def test_dropout_draws_in_training_and_not_in_a_prediction() -> None:
    trainer = read("dropout").trainer(MSELoss(), SGD(0.0))
    arrays = dict(np.load(FILES / "cnn.npz"))
    inputs = [arrays["input 0"], arrays["input 1"]]
    target = np.zeros((3, 6), "float32")
    losses = {float(trainer.update(inputs, target)) for _ in range(4)}
    assert len(losses) > 1
    first, second = (np.asarray(trainer.predict(*inputs)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_what_was_exported_by_eval_stays_as_it_is() -> None:
    model = read("evaluated")
    trainer = model.trainer(MSELoss(), SGD(0.0))
    arrays = dict(np.load(FILES / "cnn.npz"))
    inputs = [arrays["input 0"], arrays["input 1"]]
    target = np.zeros((3, 6), "float32")
    losses = {float(trainer.update(inputs, target)) for _ in range(3)}
    assert len(losses) == 1
    after = model.state_dict(trainer)["norm.running_mean"]
    np.testing.assert_array_equal(after, model.states["norm_running_mean"])


def test_lines_of_the_program_are_those_that_torch_recorded() -> None:
    bindings = list(read("cnn").mod["backbone"].body.bindings())
    spans = [binding.span for binding in bindings if binding.span is not None]
    assert {span.file for span in spans} == {"write_torch_files.py"}


def test_from_torch_is_a_name_of_the_package() -> None:
    assert relaxjax.from_torch is from_torch


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="takes the path of a"):
        from_torch(3)


def test_a_file_is_for_inputs_of_its_own() -> None:
    with pytest.raises(TypeError, match="a file is exported already"):
        from_torch(FILES / "cnn.pt2", np.zeros(3))
