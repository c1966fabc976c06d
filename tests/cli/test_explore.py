"""`relaxjax explore`: a page of a script, of a loss written in JAX, of a checkpoint."""

import json
from pathlib import Path

import pytest

from relaxjax.cli import main
from relaxjax.cli.demo import trainable
from relaxjax.lowering import VirtualMachine, build
from relaxjax.training import Trainer

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


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    return str(path)


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
