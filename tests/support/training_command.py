"""`relaxjax train` on a model and on a line: fixtures, and what is left in the folder or told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from relaxjax.cli import main

MODEL = """
from relaxjax.script import ir as I, relax as R

BATCH = 16

@I.ir_module
class Model:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((BATCH, 64), "float32"),
        w: R.Tensor((64, 10), "float32"),
        b: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            out = R.add(R.matmul(x, w), b)
            R.output(out)
        return out
"""

LINE = """
@R.function
def line(x: R.Tensor(("n", 2), "float32"), w: R.Tensor((2, 1), "float32")):
    with R.dataflow():
        out = R.matmul(x, w)
        R.output(out)
    return out
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.fixture
def line(tmp_path: Path) -> Path:
    path = tmp_path / "line.py"
    path.write_text(LINE)
    x = np.random.default_rng(0).normal(size=(40, 2))
    np.savez(tmp_path / "line.npz", x=x, y=x @ np.array([[2.0], [-1.0]]))
    return path


def train(model: Path, data: object, *options: object) -> int:
    out = ["--out", str(model.parent / "run")]
    return main(["train", str(model), "--data", str(data), *out, *map(str, options)])


def log(model: Path) -> list[dict[str, Any]]:
    lines = (model.parent / "run" / "log.jsonl").read_text().splitlines()
    return [json.loads(text) for text in lines]


def weights(model: Path) -> Any:
    return load_file(model.parent / "run" / "model.safetensors")


def refused(capsys: Capture) -> str:
    error = capsys.readouterr().err
    assert error.startswith("relaxjax: error: ")
    assert not list(Path().glob("run"))
    return error.removeprefix("relaxjax: error: ").strip()
