"""`--load`: passes, losses and operators of one's own, known to commands by their names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_command import LINE

from relaxjax.cli import main
from relaxjax.ir.op import OPS
from relaxjax.passes.infrastructure.base import FACTORIES

Capture = pytest.CaptureFixture[str]

MODULE = """
@I.ir_module
class Module:
    I.module_attrs({"note": 1, "other": 2})

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.negative(x)
        return y
"""

PASSES = """
from relaxjax.passes import Sequential, function_pass, module_pass, pass_factory

@pass_factory(opt_level=0)
def ForgetOne(mod, name: str):
    return mod.without_attr(name)

@module_pass(opt_level=0)
def ForgetOther(mod, ctx):
    return mod.without_attr("other")

@module_pass(opt_level=0)
class Remember:
    def __init__(self, name, value=7):
        self.name, self.value = name, value

    def transform_module(self, mod, ctx):
        return mod.with_attr(self.name, self.value)

Both = Sequential([ForgetOne("note"), ForgetOther])
"""

LOSSES = """
import jax.numpy as jnp
from relaxjax.losses import CrossEntropyLoss, Loss, from_jax
from relaxjax.script import relax as R

class Softer(CrossEntropyLoss):
    pass

class Fourth(Loss):
    def __init__(self, reduction="mean"):
        super().__init__("fourth", 1, reduction)

    def build(self, builder, predictions, targets):
        difference = builder.emit(R.subtract(predictions, targets))
        return self.reduce(builder.emit(R.power(difference, R.const(4.0, "float32"))))

def distance(predictions, targets):
    return jnp.mean(jnp.abs(predictions - targets))

far = from_jax(distance)
"""

OPERATOR = """
from relaxjax.ir.types import TensorType
from relaxjax.ops import op

@op("relax.own_tests.cube", lower=lambda data: data * data * data)
def cube(data: TensorType) -> TensorType:
    return data
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    tables: list[Any] = [FACTORIES, OPS]
    before = [dict(table) for table in tables]
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    (tmp_path / "own_passes.py").write_text(PASSES)
    return path


def opt(script: Path, pipeline: str) -> int:
    return main(
        ["opt", str(script), "-p", pipeline, "--load", str(script.parent / "own_passes.py")]
    )


@pytest.mark.parametrize(
    ("pipeline", "attributes"),
    [
        ("ForgetOne{name=note}", '{"other": 2}'),
        ("ForgetOther", '{"note": 1}'),
        ("Remember{name=third}", '{"note": 1, "other": 2, "third": 7}'),
        ("Remember{name=third,value=8},ForgetOther", '{"note": 1, "third": 8}'),
        ("Both,Remember{name=a}", '{"a": 7}'),
    ],
)
def test_a_pipeline_names_passes_of_a_file(
    pipeline: str, attributes: str, script: Path, capsys: Capture
) -> None:
    assert opt(script, pipeline) == 0
    assert f"I.module_attrs({attributes})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("ForgetTwo", "there is no pass `ForgetTwo`; did you mean `ForgetOne`"),
        ("ForgetOther{a=1}", "`ForgetOther` has no option `a`: it has none"),
        ("Remember{valeu=1}", "its options are `name`, `value`; did you mean `value`?"),
        ("ModulePass", "there is no pass `ModulePass`"),
    ],
)
def test_what_is_named_wrongly(pipeline: str, message: str, script: Path, capsys: Capture) -> None:
    assert opt(script, pipeline) == 2
    assert message in capsys.readouterr().err


def test_a_pass_of_a_file_is_not_there_without_it(script: Path, capsys: Capture) -> None:
    assert opt(script, "ForgetOther") == 0
    capsys.readouterr()
    assert main(["opt", str(script), "-p", "ForgetOther"]) == 2
    assert "there is no pass `ForgetOther`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "own.py`"),
        ("a = 1\nb = a / 0\n", "cannot be run: ZeroDivisionError: division by zero (line 2)"),
        ("a = (\n", "own.py:1:5\n    a = (\n        ^"),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of"),
    ],
)
def test_a_file_that_cannot_be_run(
    text: str | None, message: str, script: Path, capsys: Capture
) -> None:
    file = script.parent / "own.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        main(["opt", str(script), "--load", str(file)])
    error = capsys.readouterr().err
    assert error.startswith("relaxjax opt: error: ")
    assert message in error


def test_an_operator_of_a_file_is_read_in_scripts(script: Path, capsys: Capture) -> None:
    script.write_text(MODULE.replace("R.negative", "R.own_tests.cube"))
    assert main(["opt", str(script)]) == 2
    capsys.readouterr()
    (script.parent / "own_operators.py").write_text(OPERATOR)
    file = str(script.parent / "own_operators.py")
    assert main(["opt", str(script), "-p", "LegalizeOps", f"--load={file}"]) == 0
    assert "L.mul(x, x)" in capsys.readouterr().out


def test_bisect_takes_passes_of_a_file(script: Path, capsys: Capture) -> None:
    check = script.parent / "check.py"
    check.write_text('assert "other" in module.attrs\n')
    own = str(script.parent / "own_passes.py")
    pipeline = "ForgetOne{name=note},ForgetOne{name=other}"
    assert main(["bisect", str(script), "-p", pipeline, "--check", str(check), "--load", own]) == 1
    assert "pass 2 of 2 breaks the check: ForgetOne{name=other}" in capsys.readouterr().out


@pytest.mark.parametrize("loss", ["Fourth", "far"])
def test_a_model_trains_by_a_loss_of_a_file(loss: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "line.py").write_text(LINE)
    (tmp_path / "own_losses.py").write_text(LOSSES)
    x = np.random.default_rng(0).normal(size=(64, 2)).astype("float32")
    np.savez(tmp_path / "line.npz", x=x, y=x @ np.array([[1], [2]], "float32"))
    common = ["train", str(tmp_path / "line.py"), "--data", str(tmp_path / "line.npz")]
    own = ["--loss", loss, "--load", str(tmp_path / "own_losses.py")]
    out = ["--out", str(tmp_path / "run"), "--lr", "0.1"]
    assert main([*common, *own, *out, "--epochs", "2"]) == 0
    assert "epoch 2/2  loss " in capsys.readouterr().out
    (tmp_path / "own_losses.py").write_text(f"{LOSSES}\n# another file\n")
    assert main([*common, *own, *out, "--epochs", "3", "--resume"]) == 2
    assert "what the files of --load hold became another" in capsys.readouterr().err


def test_a_loss_of_scores_is_measured_as_such(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "model.py").write_text(
        LINE.replace('(("n", 2)', '(("n", 64)').replace("(2, 1)", "(64, 10)")
    )
    (tmp_path / "own_losses.py").write_text(LOSSES)
    arguments = ["train", str(tmp_path / "model.py"), "--data", "digits", "--epochs", "1"]
    own = ["--loss", "Softer", "--load", str(tmp_path / "own_losses.py")]
    assert main([*arguments, *own, "--out", str(tmp_path / "run")]) == 0
    assert "  accuracy " in capsys.readouterr().out


def test_a_loss_that_no_file_holds(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "own_losses.py").write_text(LOSSES)
    arguments = ["train", "model.py", "--data", "digits", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--loss", "Forth", "--load", str(tmp_path / "own_losses.py")])
    assert "there is no loss `Forth`: there are Softer, Fourth, far, cross_entropy" in (
        capsys.readouterr().err
    )
