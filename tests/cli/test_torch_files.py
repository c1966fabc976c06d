"""Commands that read models of PyTorch: its program, and in a training its weights."""

from pathlib import Path

import chex
import numpy as np
import pytest

from relaxjax import VirtualMachine, build, from_torch
from relaxjax.cli import main
from relaxjax.script import load_archive
from relaxjax.training import load_trainer

FILE = Path(__file__).parents[1] / "from_torch" / "files" / "block.pt2"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def data(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(12, 1, 8, 8)).astype("float32")
    np.savez(tmp_path / "data.npz", x=images, y=rng.integers(0, 4, 12))
    return str(tmp_path / "data.npz")


@pytest.mark.smoke
@pytest.mark.parametrize("half", [[], ["--half", "bfloat16"]])
def test_a_training_begins_with_the_weights_of_the_file(
    data: str, half: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    rate = ["--lr", "1e-12", "--optim", "sgd"]
    assert main(["train", str(FILE), "--data", data, "--epochs", "1", *rate, *half,
                 "--batch", "4", "--out", str(out)]) == 0  # fmt: skip
    trained, model = load_trainer(out / "model.safetensors"), from_torch(FILE)
    chex.assert_trees_all_close(trained.export_params(), dict(model.params), rtol=1e-5, atol=1e-11)
    count = next(name for name in model.states if "batches" in name)
    assert int(trained.export_states()[count]) == int(model.states[count]) + 3


def test_its_program_is_read(tmp_path: Path, capsys: Capture) -> None:
    assert main(["opt", str(FILE)]) == 0
    assert "R.nn.batch_norm" in capsys.readouterr().out
    assert main(["memory", str(FILE), "--loss", "cross_entropy", "--set", "n=4"]) == 0
    assert "backbone_loss_adjoint: at most" in capsys.readouterr().out
    page = tmp_path / "page.html"
    explore = ["explore", str(FILE), "--loss", "cross_entropy", "--set", "n=4", "-o", str(page)]
    assert main(explore) == 0
    assert page.stat().st_size > 10_000


def test_what_no_trainer_saved_predicts_nothing(data: str, capsys: Capture) -> None:
    assert main(["predict", str(FILE), "--data", data]) == 2
    printed = capsys.readouterr().err
    assert "is a model of PyTorch, and no trainer saved it: `relaxjax train" in printed


def test_its_program_is_exported(tmp_path: Path) -> None:
    written = tmp_path / "plain.py"
    assert main(["export", str(FILE), "--format", "python", "-o", str(written)]) == 0
    assert "def backbone(\n    input,\n    p_0_weight," in written.read_text()


def test_its_inference_is_exported(tmp_path: Path) -> None:
    """What `relaxjax.lowering` reads again gives what torch's model gives after `net.eval()`."""
    files = FILE.parent
    written, plain = tmp_path / "net.safetensors", tmp_path / "plain.safetensors"
    argv = ["export", str(files / "dropout.pt2"), "--format", "archive"]
    assert main([*argv, "--inference", "-o", str(written)]) == 0
    assert main([*argv, "-o", str(plain)]) == 0
    mod, trained = load_archive(written)[0], load_archive(plain)[0]
    assert len(mod["backbone"].ret_ty.fields) == 2
    assert "state_num" not in mod.attrs
    assert len(trained["backbone"].ret_ty.fields) == 2 + trained.attrs["state_num"]
    evaluated = from_torch(files / "evaluated.pt2")
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype("float32") for shape in ((3, 1, 8, 8), (3, 6))]
    held = [*evaluated.params.values(), *evaluated.states.values()]
    found = VirtualMachine(build(mod))["backbone"](*inputs, *held)
    wanted = VirtualMachine(build(evaluated.mod))["backbone"](*inputs, *held)
    for place in range(2):
        np.testing.assert_allclose(found[place], wanted[place], rtol=1e-5, atol=1e-6)


def test_what_is_no_such_file_is_named(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "broken.pt2").write_bytes(b"PK, but no zip")
    assert main(["opt", str(tmp_path / "broken.pt2")]) == 2
    assert "broken.pt2" in capsys.readouterr().err
