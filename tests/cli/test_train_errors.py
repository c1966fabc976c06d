"""What `relaxjax train` refuses, and what it says of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_command import LINE, MODEL, Capture, refused, train

from relaxjax.cli import main
from relaxjax.training import JsonLines


def test_wrong_data(model: Path, line: Path, capsys: Capture) -> None:
    folder = model.parent
    cases: dict[object, str] = {
        "numbers": "`numbers` is no data: give one of\ndigits ",
        "digit": "`digit` is no data; did you mean `digits`? give one of\ndigits ",
        folder / "none.npz": "there is no file `",
        folder / "none.safetensors": "there is no file `",
        line.parent / "line.npz": "the model takes examples of shape (64,), but those of `",
        folder: f"the folder `{folder}` is no data, it holds ",
        folder / "images": "there is no train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, ",
    }
    (folder / "images" / "FashionMNIST").mkdir(parents=True)
    for data, message in cases.items():
        assert train(model, data) == 2
        assert refused(capsys).startswith(message)


def test_damaged_data(model: Path, capsys: Capture) -> None:
    for suffix in ("npz", "safetensors"):
        path = model.parent / f"damaged.{suffix}"
        path.write_bytes(b"no such thing")
        assert train(model, path) == 2
        assert f"cannot be read as a{'n .npz' if suffix == 'npz' else ' safetensors'} file" in (
            refused(capsys)
        )


def test_arrays_that_do_not_belong_together(line: Path, capsys: Capture) -> None:
    x, y = np.zeros((6, 2), "float32"), np.zeros((5, 1), "float32")
    data = line.parent / "odd.npz"
    np.savez(data, x=x)
    assert train(line, data) == 2
    assert "must hold arrays `x` and `y`, but it holds `x`" in refused(capsys)
    np.savez(data, x=x, y=y)
    assert train(line, data) == 2
    assert "there are 6 examples in `x`, but 5 targets in `y`" in refused(capsys)
    np.savez(data, x=x[:5], y=y, x_test=x)
    assert train(line, data) == 2
    assert "must hold both `x_test` and `y_test`, or neither" in refused(capsys)
    np.savez(data, x=x[:5], y=y)
    assert train(line, data) == 2
    assert "5 examples do not fill a single batch of 64" in refused(capsys)
    assert train(line, data, "--holdout", 0.8) == 2
    assert "1 example does not fill a single batch of 64; --holdout 0.8 keeps" in refused(capsys)
    np.savez(data, x=x[:5], y=3)
    assert train(line, data) == 2
    assert "`y` must hold an entry for each example, not a number" in refused(capsys)


STRANGE: dict[str, tuple[Any, str]] = {
    "large": (np.full(20, 2**32 + 3), "`y` holds 4294967299, which is no integer of 32 bits"),
    "words": (np.full(20, "a"), "`y` must hold real numbers, but it holds <U1"),
    "complex": (np.full(20, 1j), "`y` must hold real numbers, but it holds complex128"),
    "nothing": (np.zeros(0), "`y` holds no examples"),
    "missing": (
        np.where(np.arange(20) == 7, np.nan, 0),
        "`y[7]` holds nan, which is not finite in float32",
    ),
    "huge": (np.full((20, 1), 1e300), "`y[0]` holds 1e+300, which is not finite in float32"),
}


@pytest.mark.parametrize(("y", "message"), STRANGE.values(), ids=STRANGE)
def test_numbers_that_cannot_be_targets(line: Path, capsys: Capture, y: Any, message: str) -> None:
    data = line.parent / "strange.npz"
    np.savez(data, x=np.zeros((20, 2)), y=y)
    assert train(line, data, "--loss", "mse", "--batch", 8) == 2
    assert refused(capsys) == f"`{data}`: {message}"


def test_options_that_would_do_nothing(model: Path, line: Path, capsys: Capture) -> None:
    assert train(model, "digits", "--epochs", 1, "--accumulate", 91) == 2
    assert "the training has 90 steps, but --accumulate 91 makes an update" in refused(capsys)
    line.write_text(LINE.replace('"n"', "8"))
    data = line.parent / "line.npz"
    assert train(line, data, "--loss", "mse", "--holdout", 0.1, "--patience", 1) == 2
    assert "by the loss of batches of 8, as the model takes them, but there are 4" in refused(
        capsys
    )
    assert train(model, "digits", "--tensorboard", model) == 2
    assert refused(capsys) == f"`{model}` is a file: give a folder by --tensorboard"


def test_classes_that_the_model_does_not_score(model: Path, capsys: Capture) -> None:
    data, classes = model.parent / "classes.npz", np.arange(16) % 10
    x = np.zeros((16, 64), "float32")
    np.savez(data, x=x, y=classes + 1)
    assert train(model, data) == 2
    assert "the model scores 10 classes, 0 to 9, but `y` holds 10" in refused(capsys)
    np.savez(data, x=x, y=classes, x_test=x, y_test=-1 - classes)
    assert train(model, data) == 2
    assert "0 to 9, but `y_test` holds -10 to -1" in refused(capsys)
    np.savez(data, x=x, y=classes / 2)
    assert train(model, data) == 2
    assert refused(capsys) == (
        f"`{data}`: class ids are integers, but `y` holds numbers of float32: save them by "
        '.astype("int32")'
    )
    np.savez(data, x=x, y=np.where(classes == 3, -100, classes))
    assert train(model, data, "--epochs", 1) == 0


def test_numbers_are_no_shares_of_classes(model: Path, capsys: Capture) -> None:
    """Cross entropy is the default, which numbers of a regression would take without end."""
    data, one_hot = model.parent / "shares.npz", np.eye(10)[np.arange(16) % 10]
    x = np.zeros((16, 64), "float32")
    for y in (-one_hot, one_hot + 1):
        np.savez(data, x=x, y=y)
        assert train(model, data) == 2
        assert "takes ids, one-hot vectors or probabilities, those in `y` are" in refused(capsys)
    np.savez(data, x=x, y=one_hot * 0.9 + 0.01, x_test=x, y_test=2 * one_hot)
    assert train(model, data) == 2
    assert "`y_test` are of 0 to 2 and add up to 2 to 2: give another --loss" in refused(capsys)
    np.savez(data, x=x, y=one_hot)
    assert train(model, data, "--epochs", 1) == 0


def test_rows_that_the_model_has_not(model: Path, capsys: Capture) -> None:
    model.write_text("""
@R.function
def words(x: R.Tensor(("n",), "int32"), table: R.Tensor((10, 3), "float32")):
    with R.dataflow():
        out = R.take(table, x, axis=0)
        R.output(out)
    return out
""")
    data, ids, y = model.parent / "words.npz", np.arange(64) % 10, np.zeros(64, "int32")
    np.savez(data, x=ids + 1, y=y)
    assert train(model, data) == 2
    assert "`x`: the model picks one of 10 rows, 0 to 9, by each id in `x`, " in refused(capsys)
    np.savez(data, x=ids, y=y, x_test=-ids, y_test=y)
    assert train(model, data) == 2
    assert "`x_test`: the model picks one of 10 rows, " in refused(capsys)
    np.savez(data, x=ids.astype("float32"), y=y)
    assert train(model, data, "--epochs", 1) == 0


def test_models_that_cannot_be_trained(model: Path, capsys: Capture) -> None:
    one = MODEL.replace("backbone", "one")
    model.write_text(one + one[one.index("    @R.function") :].replace("one", "two"))
    assert train(model, "digits") == 2
    assert (
        "must be a function called `backbone`, or the only public one; the script has `one`, `two`"
        in (refused(capsys))
    )
    model.write_text(MODEL.replace('"param_num": 2', '"param_num": 1'))
    assert train(model, "digits") == 2
    assert "trains models of one input, a tensor, but `backbone` takes 2" in refused(capsys)
    model.write_text(MODEL.replace('"param_num": 2', '"param_num": 5'))
    assert train(model, "digits") == 2
    assert "takes 0: of its 3 arguments, `param_num` counts 5 and `state_num` 0" in refused(capsys)
    model.write_text(LINE)
    assert train(model, "digits", "--states", "1") == 2
    assert "with 1 inputs and 1 states no parameter is left to train" in refused(capsys)
    model.write_text(MODEL.replace("return out", "return ((out, out), out)"))
    assert train(model, "digits") == 2
    assert "the model's first output must be a tensor, but it is of type R.Tuple(" in (
        refused(capsys)
    )


def test_folders_that_are_in_the_way(model: Path, line: Path, capsys: Capture) -> None:
    data, options = line.parent / "line.npz", ["--loss", "mse", "--batch", "8", "--epochs", "1"]
    assert train(line, data, *options, "--resume") == 2
    assert "there is no training in `" in capsys.readouterr().err
    assert train(line, data, *options) == 0
    capsys.readouterr()
    assert train(line, data, *options) == 2
    assert "holds a training already: go on with it by --resume, or give" in capsys.readouterr().err
    (line.parent / "run" / "checkpoints").rename(line.parent / "moved")
    assert train(line, data, *options) == 2
    assert "model.safetensors` is a model already: move it away" in capsys.readouterr().err
    (line.parent / "moved").rename(line.parent / "run" / "checkpoints")
    for place in (line, line / "run"):
        assert main(["train", str(line), "--data", str(data), "--out", str(place)]) == 2
        assert f"`{line}` is a file: give a folder by --out" in capsys.readouterr().err
    (line.parent / "link").symlink_to("gone")
    place = line.parent / "link"
    assert main(["train", str(line), "--data", str(data), "--out", str(place)]) == 2
    assert f"`{place}` is a link to `gone`, which is not there: give" in capsys.readouterr().err


def test_a_folder_that_may_not_be_written(
    model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert train(model, "digits") == 2
    assert refused(capsys) == (
        f"nothing can be written into `{model.parent}`: choose another --out"
    )


def test_a_training_that_comes_to_nothing(line: Path, capsys: Capture) -> None:
    """It saves no model, and says that it failed; no checkpoint holds what it came to."""
    options = ["--loss", "mse", "--batch", "8", "--optim", "sgd", "--lr", "1e30"]
    assert train(line, line.parent / "line.npz", *options) == 1
    assert refused(capsys) == (
        "the loss of step 2, in epoch 1, is inf: make --lr smaller, or find where that "
        "comes from by --check-numerics"
    )
    assert list((line.parent / "run" / "checkpoints").glob("*")) == []
    assert not (line.parent / "run" / "model.safetensors").exists()


def test_a_training_that_is_over_already(line: Path, capsys: Capture) -> None:
    given = [line.parent / "line.npz", "--loss", "mse", "--batch", 8]
    assert train(line, *given, "--epochs", 3) == 0
    assert "done already" not in capsys.readouterr().out
    assert train(line, *given, "--epochs", 2, "--resume") == 0
    said = "3 epochs are done already, and --epochs 2 asks for no more\nthe model is saved in "
    assert said in capsys.readouterr().out
    assert train(line, *given, "--epochs", 4, "--resume") == 0
    assert "done already" not in capsys.readouterr().out
    ended = [*given, "--optim", "sgd", "--lr", "1e-30", "--patience", "1", "--epochs", 9]
    assert train(line, *ended, "--resume", "--epochs", 9) == 2  # begun with another optimizer
    (line.parent / "run").rename(line.parent / "first")
    assert train(line, *ended) == 0
    capsys.readouterr()
    assert train(line, *ended, "--resume") == 0
    said = "2 epochs are done already, and --patience asks for no more"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("written", [False, True])
def test_an_interrupted_training_tells_what_is_left_of_it(
    line: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    def pressed(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(JsonLines, "epoch" if written else "step", pressed)
    given = ["--loss", "mse", "--batch", 8, "--epochs", 3]
    assert train(line, line.parent / "line.npz", *given) == 130
    place = line.parent / "run" / "checkpoints" / "step-000000005.safetensors"
    assert capsys.readouterr().err == "relaxjax: interrupted: " + (
        f"`{place}` is the last checkpoint: go on from it by --resume\n"
        if written
        else "there is no checkpoint yet: --every writes some before an epoch is done\n"
    )


def test_a_batch_that_is_not_the_models(model: Path, capsys: Capture) -> None:
    assert train(model, "digits", "--batch", "8") == 2
    assert refused(capsys) == "the model takes batches of 16, not of 8"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (
            "--loss",
            "cross_entropi",
            "l1, huber, smooth_l1, kl_div, hinge, cosine; did you mean `cross_entropy`",
        ),
        ("--optim", "adamW", "there is no optimizer `adamW`"),
        ("--lr", "-1", "must be above zero, found -1"),
        ("--lr", "inf", "must be above zero and finite, found inf"),
        ("--seed", "-1", "must be at least 0, found -1"),
        ("--loss-scale", "static", 'must be "dynamic" or a number, found static'),
        ("--holdout", "1", "must be at least 0 and below 1, found 1"),
        ("--loss-scale", "big", "argument --loss-scale"),
        ("--schedule", "sine", "invalid choice: 'sine'"),
        ("--out", "", "argument --out: must be a name, found an empty text"),
        ("--tensorboard", "", "argument --tensorboard: must be a name, found an empty text"),
    ],
)
def test_options_that_make_no_sense(
    option: str, value: str, message: str, model: Path, capsys: Capture
) -> None:
    with pytest.raises(SystemExit, match="2"):
        train(model, "digits", option, value)
    assert message in capsys.readouterr().err
