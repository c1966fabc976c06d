"""`relaxjax explore`: a page of a script, of a loss written in JAX, of a checkpoint."""

import json
from pathlib import Path

import numpy as np
import pytest

from relaxjax import Trainer, VirtualMachine, build
from relaxjax.cli import main
from relaxjax.cli.demo import trainable

SCRIPT = """
@I.ir_module
class Model:
    @R.function
    def backbone(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y
"""
FILE = """
import jax.numpy as jnp

def loss(params, batch):
    return jnp.mean(jnp.tanh(batch @ params))

params, batch = jnp.ones((8, 8)), jnp.ones((16, 8))
"""

Capture = pytest.CaptureFixture[str]


def test_a_page_is_written(script: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "report.html"
    assert main(["explore", script, "--loss", "mse", "--set", "n=8", "-o", str(out)]) == 0
    assert "<title>model.py · relaxjax explorer</title>" in out.read_text()
    assert capsys.readouterr().out.startswith(f"{out}: ")


def test_the_document_is_printed(script: str, capsys: Capture) -> None:
    assert main(["explore", script, "--loss", "mse", "--set", "n=8", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["function"] == "backbone_loss_adjoint"
    assert data["memory"]["plans"][0]["name"] == "everything kept"
    assert data["sources"][0]["lines"] == SCRIPT.rstrip("\n").split("\n")


def test_a_loss_in_jax(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "train.py"
    path.write_text(FILE)
    assert main(["explore", f"{path}:loss", "--args", "params, batch", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["title"] == "train.py:loss"
    assert "Gradient" in [stage["name"] for stage in data["stages"]]


def test_a_checkpoint(tmp_path: Path, capsys: Capture) -> None:
    mod = trainable(0.1)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.xavier_uniform_init_params(0)
    trainer.save(tmp_path / "model.safetensors")
    assert main(["explore", str(tmp_path / "model.safetensors"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["function"] == "backbone_loss_adjoint"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--args", "x"], "--args is for a loss written in JAX: name it behind its file"),
        (["--set", "n=a"], "`--set n=a` gives no size"),
        (["-f", "nothing"], "the module has no function `nothing`"),
        (["-o", "{folder}"], "is a folder: it cannot be written as a file"),
    ],
)
def test_what_is_wrong_is_said(
    script: str, tmp_path: Path, options: list[str], message: str, capsys: Capture
) -> None:
    given = [option.format(folder=tmp_path) for option in options]
    assert main(["explore", script, *given]) == 2
    assert message in capsys.readouterr().err


def test_times_and_numbers_of_a_step_on_examples(
    script: str, tmp_path: Path, capsys: Capture
) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, x=np.full((40, 4), 3, "float32"), y=np.zeros((40, 3), "float32"))
    options = ["--loss", "mse", "--set", "n=8", "--profile", "--data", str(data), "--json"]
    assert main(["explore", script, *options]) == 0
    found = json.loads(capsys.readouterr().out)
    (x,) = (value for value in found["numbers"]["values"] if value["var"] == "x")
    assert (x["count"], x["low"], x["high"]) == (32, 3, 3)
    assert found["numbers"]["origin"] == "random numbers for 1 of 3 arguments"
    assert any("y" in kernel["bindings"] for kernel in found["profile"]["kernels"])


def test_random_numbers_where_no_data_is_named(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "train.py"
    path.write_text(FILE)
    assert main(["explore", f"{path}:loss", "--args", "params, batch", "--json", "--data"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["numbers"]["origin"] == "the numbers given"
    assert found["profile"] is None


def test_a_checkpoint_is_run_with_its_parameters(tmp_path: Path, capsys: Capture) -> None:
    mod = trainable(0.1)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.load_params({name: a + 7 for name, a in trainer.export_params().items()})
    path = tmp_path / "model.safetensors"
    trainer.save(path)
    assert main(["explore", str(path), "--data", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["numbers"]["origin"] == "a batch of random numbers"
    (w0,) = (value for value in found["numbers"]["values"] if value["var"] == "w0")
    assert (w0["low"], w0["high"]) == (7, 7)
    assert main(["explore", str(path), "--data", "--policy", "free"]) == 2
    told = "--policy: model.safetensors holds a trainer, which is run as it was saved: leave the"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "digits"], "give --loss, such as --loss cross_entropy"),
        (["--loss", "mse", "--set", "n=64", "--data", "few"], "holds 2 examples, but the model"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    script: str, tmp_path: Path, capsys: Capture, options: list[str], message: str
) -> None:
    few = tmp_path / "few.npz"
    np.savez(few, x=np.ones((2, 4), "float32"), y=np.ones((2, 3), "float32"))
    given = [str(few) if option == "few" else option for option in options]
    assert main(["explore", script, *given]) != 0
    assert message in capsys.readouterr().err


def test_examples_are_not_for_a_loss_in_jax(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "train.py"
    path.write_text(FILE)
    given = ["explore", f"{path}:loss", "--args", "params, batch", "--data", "digits"]
    assert main(given) != 0
    assert "is run with the arguments of --args: leave the name out" in capsys.readouterr().err
