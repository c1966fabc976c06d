"""`relaxjax train`: a script and data in, and a trained model out."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from training_command import LINE, MODEL, Capture, log, refused, train, weights

from relaxjax.cli import main
from relaxjax.datasets import idx
from relaxjax.training.saving.checkpoint import module


@pytest.mark.smoke
def test_digits_in_a_process_of_its_own(model: Path) -> None:
    command = [sys.executable, "-m", "relaxjax", "train", str(model), "--data", "digits"]
    options = ["--lr", "0.01", "--epochs", "2", "--out", str(model.parent / "run"), "--export"]
    options += ["--keep-memory"] if sys.platform == "linux" else []
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "650 parameters, 1442 examples in batches of 16, 355 to evaluate on"
    assert lines[1].startswith("epoch 1/2  loss ")
    assert lines[3].endswith("model.safetensors")
    assert log(model)[-1]["accuracy"] > 0.8
    assert (model.parent / "run" / "exported" / "predict.jax_export").exists()


def test_a_single_function_learns_a_line(line: Path, capsys: Capture) -> None:
    options = ["--loss", "mse", "--optim", "sgd", "--lr", "0.1", "--epochs", "40", "--batch", "8"]
    assert train(line, line.parent / "line.npz", *options, "--holdout", "0.2") == 0
    assert "2 parameters, 32 examples in batches of 8, 8 to eval" in capsys.readouterr().out
    np.testing.assert_allclose(weights(line)["params/w"], [[2], [-1]], atol=1e-3)
    assert log(line)[-1]["eval_loss"] < 1e-5
    assert "accuracy" not in log(line)[-1]


def test_a_training_tells_which_arrays_it_does_not_read(line: Path, capsys: Capture) -> None:
    data = line.parent / "line.npz"
    np.savez(data, **np.load(data), names=np.arange(3), x_val=np.zeros(1))
    assert train(line, data, "--loss", "mse", "--epochs", 1, "--batch", 8) == 0
    assert f"\nnot read of `{data}`: `names`, `x_val`\n" in capsys.readouterr().out


def test_a_policy_plans_for_the_batches_that_are_trained_on(line: Path) -> None:
    """The model takes batches of any size, and memory is planned for one."""
    data = line.parent / "line.npz"
    options = ("--loss", "mse", "--epochs", 1, "--batch", 10)
    assert train(line, data, *options, "--policy", "minimal") == 0
    planned = weights(line)["params/w"]
    shutil.rmtree(line.parent / "run")
    assert train(line, data, *options) == 0
    np.testing.assert_allclose(planned, weights(line)["params/w"], rtol=1e-5)


def test_targets_of_another_shape_than_the_scores(line: Path, capsys: Capture) -> None:
    """Three scores beside one target would each be compared with it."""
    line.write_text(LINE.replace("(2, 1)", "(2, 3)"))
    assert train(line, line.parent / "line.npz", "--loss", "mse", "--batch", 8) == 2
    assert "`predictions` have the shape (n, 3), and `targets` the shape (n, 1)" in refused(capsys)


def test_a_training_goes_on_where_it_was(line: Path) -> None:
    data = line.parent / "line.npz"
    options = ["--loss", "mse", "--batch", "8", "--every", "2"]
    whole, parts = line.parent / "whole", line.parent / "run"
    assert main(["train", str(line), "--data", str(data), *options, "--epochs", "3",
                 "--out", str(whole)]) == 0  # fmt: skip
    assert train(line, data, *options, "--epochs", "1") == 0
    assert train(line, data, *options, "--epochs", "3", "--resume") == 0
    np.testing.assert_array_equal(
        load_file(parts / "model.safetensors")["params/w"],
        load_file(whole / "model.safetensors")["params/w"],
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lr", "0.5"], "  --lr was 0.001 and is 0.5 now"),
        (["--batch", "4"], "  --batch was 8 and is 4 now"),
        (["--clip", "1"], "  --clip was not given and is 1.0 now"),
        (
            ["--schedule", "cosine"],
            "  --schedule was constant and is cosine now\n  --epochs was not",
        ),
        (["--holdout", "0.5"], "  --holdout was 0.0 and is 0.5 now\n  the data to train on became"),
    ],
)
def test_a_training_goes_on_as_it_was_begun(
    line: Path, capsys: Capture, options: list[str], words: str
) -> None:
    given = [line.parent / "line.npz", "--loss", "mse", "--batch", "8"]
    assert train(line, *given, "--epochs", "1") == 0
    before = weights(line)["params/w"]
    assert train(line, *given, *options, "--epochs", "3", "--resume") == 2
    said = capsys.readouterr().err
    assert words in said
    assert "or train another model from its values: --init with one of its checkpoints" in said
    np.testing.assert_array_equal(weights(line)["params/w"], before)


def test_a_training_goes_on_with_its_model_and_its_data(line: Path, capsys: Capture) -> None:
    given = [line.parent / "line.npz", "--loss", "mse", "--batch", "8"]
    assert train(line, *given, "--epochs", "1") == 0
    line.write_text(LINE.replace("R.matmul(x, w)", "R.tanh(R.matmul(x, w))"))
    np.savez(line.parent / "line.npz", x=np.ones((40, 2)), y=np.ones((40, 1)))
    assert train(line, *given, "--epochs", "2", "--resume") == 2
    assert "  the model became another\n  the data to train on became" in capsys.readouterr().err
    (line.parent / "run" / "training.json").write_text("{")
    assert train(line, *given, "--epochs", "2", "--resume") == 2
    assert "training.json` is damaged: " in capsys.readouterr().err


def test_a_training_of_before_there_were_records_goes_on(line: Path) -> None:
    given = [line.parent / "line.npz", "--loss", "mse", "--batch", "8"]
    assert train(line, *given, "--epochs", "1") == 0
    (line.parent / "run" / "training.json").unlink()
    assert train(line, *given, "--epochs", "2", "--resume") == 0


def test_safetensors_with_a_part_to_evaluate_on(line: Path) -> None:
    with np.load(line.parent / "line.npz") as arrays:
        x, y = (arrays[name].astype("float32") for name in ("x", "y"))
    data = line.parent / "line.safetensors"
    save_file({"x": x, "y": y, "x_test": x[:8], "y_test": y[:8]}, data)
    assert train(line, data, "--loss", "mse", "--batch", "8", "--epochs", "1") == 0
    assert "eval_loss" in log(line)[0]


def test_a_saved_model_is_where_another_training_starts(line: Path) -> None:
    options = [line.parent / "line.npz", "--loss", "mse", "--batch", "8", "--epochs", "1"]
    assert train(line, *options) == 0
    first = line.parent / "first"
    (line.parent / "run").rename(first)
    saved = first / "model.safetensors"
    assert train(line, *options, "--init", saved, "--lr", "1e-12") == 0
    np.testing.assert_allclose(weights(line)["params/w"], load_file(saved)["params/w"], rtol=1e-5)


def test_a_training_goes_on_from_the_values_that_it_began_with(line: Path, capsys: Capture) -> None:
    options = [line.parent / "line.npz", "--loss", "mse", "--batch", "8"]
    assert train(line, *options, "--epochs", "1") == 0
    first = (line.parent / "run").rename(line.parent / "first") / "model.safetensors"
    assert train(line, *options, "--epochs", "1", "--init", first) == 0
    assert train(line, *options, "--epochs", "2", "--resume", "--init", "other") == 2
    assert f"  --init was {first} and is other now" in capsys.readouterr().err
    first.unlink()
    assert train(line, *options, "--epochs", "2", "--resume", "--init", first) == 0
    assert len(log(line)) == 2


def test_a_training_that_starts_from_another_has_a_schedule_of_its_own(line: Path) -> None:
    """It went on where that of the other one had ended, at a rate of zero, and learned nothing."""
    options = [line.parent / "line.npz", "--loss", "mse", "--batch", "8", "--epochs", "2"]
    options += ["--schedule", "cosine", "--lr", "0.1"]
    assert train(line, *options) == 0
    first = line.parent / "first"
    (line.parent / "run").rename(first)
    for optim in ("adamw", "momentum"):
        start = ["--init", first / "model.safetensors", "--optim", optim]
        assert train(line, *options, *start) == 0
        assert log(line)[-1]["loss"] < log(line)[0]["loss"]
        (line.parent / "run").rename(line.parent / optim)


def test_fashion_mnist_in_a_folder(model: Path) -> None:
    folder = model.parent / "data" / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, count in (("train", 32), ("t10k", 16)):
        pixels = rng.integers(0, 256, (count, 28, 28)).astype("uint8")
        idx.write(folder / f"{part}-images-idx3-ubyte", pixels)
        idx.write(folder / f"{part}-labels-idx1-ubyte", (np.arange(count) % 10).astype("uint8"))
    model.write_text(MODEL.replace("64", "784"))
    assert train(model, model.parent / "data", "--epochs", "1", "--loss-scale", "dynamic") == 0


def test_half_precision(line: Path, capsys: Capture) -> None:
    data = [line.parent / "line.npz", "--loss", "mse", "--batch", "8", "--epochs", "1"]
    assert train(line, *data, "--half", "float16", "--loss-scale", "dynamic") == 0
    assert "float16" in module(line.parent / "run" / "model.safetensors")["backbone"].script()


def test_help_tells_enough_to_begin(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert "relaxjax train model.py --data digits --loss cross_entropy --optim adamw" in text
    for word in ("--resume", "a file .npz", "cross_entropy, ", "rmsprop", "--schedule"):
        assert word in text
