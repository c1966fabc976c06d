"""Losses and optimizers against those of TVM itself, where TVM is right.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from relaxjax import losses, optim
from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import TensorType
from relaxjax.script import from_source

ASK_TVM = """
import json, sys
from tvm import relax
from tvm.relax.training import loss, optimizer

asked = json.load(open(sys.argv[1]))
answers = {}
for name, (made, types) in asked["losses"].items():
    answers[name] = eval(made, vars(loss))(*(relax.TensorType(*ty) for ty in types))
params = [relax.Var(name, relax.TensorType(*ty)) for name, ty in asked["params"].items()]
for made in asked["optimizers"]:
    answers[made] = eval(made, vars(optimizer)).init(params).get_function()
json.dump({name: f.script(show_meta=True) for name, f in answers.items()}, open(sys.argv[2], "w"))
"""

SCORES, IDS, ONE_HOT = ((3, 5), "float32"), ((3,), "int64"), ((3, 5), "int64")
WEIGHTS = ((5,), "float32")

LOSSES: dict[str, tuple[str, list[Any]]] = {
    **{
        f"{kind} {reduction}": (f"{kind}('{reduction}')", [SCORES, SCORES])
        for kind in ("L1Loss", "MSELoss")
        for reduction in ("mean", "sum", "none")
    },
    **{
        f"class ids {reduction}": (f"CrossEntropyLoss('{reduction}', 2)", [SCORES, IDS])
        for reduction in ("mean", "sum", "none")
    },
    "weighted class ids": ("CrossEntropyLoss()", [SCORES, IDS, WEIGHTS]),
    "one-hot": ("CategoricalCrossEntropyLoss('sum')", [SCORES, ONE_HOT]),
    "weighted one-hot": ("CategoricalCrossEntropyLoss('sum')", [SCORES, ONE_HOT, WEIGHTS]),
}

PARAMS = {"x": ((3, 3), "float32"), "y": ((3,), "float32")}
OPTIMIZERS = [
    "SGD(0.1)",
    "SGD(0.1, 0.02)",
    "MomentumSGD(0.1, 0.9)",
    "MomentumSGD(0.1, 0.9, 0.85, 0.02)",
    "MomentumSGD(0.1, 0.9, 0.85, 0.02, nesterov=True)",
    "Adam(0.01)",
    "Adam(0.01, (0.8, 0.85), 1e-7, 0.1)",
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    python = os.environ.get("RELAXJAX_TVM_PYTHON")
    if not python:
        pytest.skip("RELAXJAX_TVM_PYTHON names no interpreter with TVM")
    folder: Path = tmp_path_factory.mktemp("tvm")
    asked, answered = folder / "asked.json", folder / "answered.json"
    asked.write_text(json.dumps({"losses": LOSSES, "params": PARAMS, "optimizers": OPTIMIZERS}))
    subprocess.run([python, "-c", ASK_TVM, asked, answered], check=True, capture_output=True)
    found: dict[str, str] = json.loads(answered.read_text())
    return found


def read(text: str) -> Function:
    function = from_source(text)
    assert isinstance(function, Function)
    return function


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_that_of_tvm(name: str, answers: dict[str, str]) -> None:
    made, types = LOSSES[name]
    ours = eval(made, vars(losses))(*(TensorType(*ty) for ty in types))
    assert_structural_equal(ours, read(answers[name]))


@pytest.mark.parametrize("made", OPTIMIZERS)
def test_an_optimizer_is_that_of_tvm(made: str, answers: dict[str, str]) -> None:
    params = [Var(name, TensorType(*ty)) for name, ty in PARAMS.items()]
    ours = eval(made, vars(optim)).init(params).get_function()
    assert_structural_equal(ours, read(answers[made]))
