"""`relaxjax predict`: a saved model run on data, measured where there are targets."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_models import (
    BATCH,
    CLASSES,
    FEATURES,
    Classifier,
    batch,
    classifier,
    counting,
    trainable,
)

from relaxjax import IRModule, TensorType, VirtualMachine, build, from_source
from relaxjax.cli import main
from relaxjax.losses import CrossEntropyLoss, MSELoss
from relaxjax.optim import SGD
from relaxjax.training import Trainer, evaluate_with_loss

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    trainer = classifier()
    trainer.xavier_uniform_init_params(seed=1)
    trainer.save(tmp_path / "model.safetensors")
    return trainer


def predict(folder: Path, data: str, *options: object) -> int:
    given = [str(folder / "model.safetensors"), "--data", str(folder / data)]
    return main(["predict", *given, *map(str, options)])


def refused(capsys: Capture) -> str:
    return capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_examples_of_any_number_are_predicted_and_measured(
    trainer: Trainer, suffix: str, tmp_path: Path, capsys: Capture
) -> None:
    """A last batch is filled up for a model that takes so many at once, and cut again."""
    (x, y), (more, others) = batch(0), batch(1)
    x, y = np.concatenate([x, more[:3]]), np.concatenate([y, others[:3]])
    np.savez(tmp_path / "data.npz", x=x, y=y)
    out = tmp_path / f"scores{suffix}"
    assert predict(tmp_path, "data.npz", "-o", out) == 0
    said = capsys.readouterr().out.splitlines()
    wanted = np.concatenate([trainer.predict(batch(0)[0]), trainer.predict(more)[:3]])
    found: Any = load_file(out) if suffix == ".safetensors" else np.load(out)
    np.testing.assert_allclose(found["predictions"], wanted, rtol=1e-6)
    assert wanted.shape == (BATCH + 3, CLASSES)
    numbers = evaluate_with_loss(trainer, [(x[:BATCH], y[:BATCH]), (x[BATCH:], y[BATCH:])],
                                 ["accuracy"])  # fmt: skip
    words = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
    assert said[0] == f"{BATCH + 3} examples  {words}"
    assert said[1] == f"{BATCH + 3} predictions are written to {out.resolve()}"


def test_accuracy_is_measured_against_one_hot_targets(tmp_path: Path, capsys: Capture) -> None:
    scores = TensorType((BATCH, CLASSES), "float32")
    mod = trainable(Classifier, CrossEntropyLoss(), SGD(0.1), scores, scores)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.save(tmp_path / "model.safetensors")
    x, y = batch(0)
    np.savez(tmp_path / "data.npz", x=x, y=np.eye(CLASSES)[y])
    assert predict(tmp_path, "data.npz") == 0
    assert f"accuracy {np.mean(y == 0):.4g}" in capsys.readouterr().out


def test_the_part_to_evaluate_on_is_measured(trainer: Trainer, tmp_path: Path) -> None:
    (x, y), (x_test, y_test) = batch(0), batch(1)
    save_file({"x": x, "y": y, "x_test": x_test, "y_test": y_test}, tmp_path / "data.safetensors")
    assert predict(tmp_path, "data.safetensors", "-o", tmp_path / "out.npz") == 0
    found = np.load(tmp_path / "out.npz")["predictions"]
    np.testing.assert_allclose(found, trainer.predict(x_test), rtol=1e-6)


def test_examples_without_targets_are_predicted(trainer: Trainer, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=batch(0)[0])
    assert predict(tmp_path, "data.npz", "-o", tmp_path / "out.npz") == 0
    found = np.load(tmp_path / "out.npz")["predictions"]
    np.testing.assert_allclose(found, trainer.predict(batch(0)[0]), rtol=1e-6)


def test_a_model_of_any_batch_with_states_and_two_outputs(tmp_path: Path) -> None:
    trainer, x = counting(), np.ones((5, 2), "float32")
    trainer.load_params({"w": np.array([3, 4], "float32")})
    trainer.save(tmp_path / "model.safetensors")
    np.savez(tmp_path / "data.npz", x=x)
    assert predict(tmp_path, "data.npz", "--batch", 2, "-o", tmp_path / "out.npz") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["predictions"], x * [3, 4])


X, Y = batch(0)
REFUSED: list[tuple[dict[str, Any], list[str], str]] = [
    ({"x": X}, [], "has no targets to measure on: write predictions by -o"),
    ({"x": X, "y": Y + CLASSES}, [], "the model scores 3 classes, 0 to 2, but the target"),
    ({"x": X, "y": Y.astype("float32")}, [], "class ids are integers, but `y` holds numbers of fl"),
    (
        {"x": X, "y": Y, "x_test": X, "y_test": Y * 1.0},
        [],
        r"integers, but `y_test` holds numbers of float32: save them by",
    ),
    ({"x": X[:0]}, ["-o", "out.npz"], "`x` holds no examples"),
    ({"x": np.ones(())}, ["-o", "out.npz"], "`x` must hold an entry for each example, not a"),
    ({"x": X[:, 1:]}, ["-o", "out.npz"], rf"takes examples of shape \({FEATURES},\), but those of"),
    ({"x": X}, ["-o", "out.csv"], "are written as .npz or .safetensors, not as `out.csv`"),
]


@pytest.mark.parametrize(("arrays", "options", "words"), REFUSED)
def test_what_it_refuses(
    trainer: Trainer, arrays: Any, options: list[str], words: str, tmp_path: Path, capsys: Capture
) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    assert predict(tmp_path, "data.npz", *options) == 2
    assert re.search(words, refused(capsys))


TWO = """
@R.function
def backbone(
    x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")
):
    with R.dataflow():
        out = R.add(R.multiply(x, w), y)
        R.output(out)
    return out
"""


def test_a_model_of_several_inputs_is_for_python(tmp_path: Path, capsys: Capture) -> None:
    two: Any = from_source(TWO)
    numbers = TensorType((4,), "float32")
    mod = IRModule({"backbone": two}, attrs={"param_num": 1, "state_num": 0})
    mod = trainable(mod, MSELoss(), SGD(0.1), numbers, numbers)
    Trainer(mod, VirtualMachine(build(mod))).save(tmp_path / "model.safetensors")
    np.savez(tmp_path / "data.npz", x=np.ones((1, 4)))
    assert predict(tmp_path, "data.npz", "-o", "out.npz") == 2
    assert "runs models of one input, but this one takes 2: run it from Python" in refused(capsys)


def test_a_script_is_no_saved_model(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "model.py").write_text("def f(): pass")
    assert main(["predict", str(tmp_path / "model.py"), "--data", "digits"]) == 2
    assert "model.py` is damaged or no safetensors file: " in refused(capsys)
