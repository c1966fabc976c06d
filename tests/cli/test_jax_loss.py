"""`relaxjax memory FILE.py:LOSS`: a loss written in JAX, whose file is run."""

import json
from pathlib import Path
from typing import Any

import pytest

import relaxjax
from relaxjax.cli import main

FILE = """
import jax.numpy as jnp

import beside

def loss(params, batch):
    hidden = jnp.tanh(batch @ params)
    return jnp.mean(hidden * hidden)

def pair(params, batch):
    return loss(params, batch), batch

params, batch = jnp.ones((8, 8)), jnp.ones((beside.ROWS, 8))
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "beside.py").write_text("ROWS = 16")
    path = tmp_path / "train.py"
    path.write_text(FILE)
    return str(path)


def test_values_have_lines_of_the_file(file: str, capsys: Capture) -> None:
    assert main(["memory", f"{file}:loss", "--args", "params, batch", "--jax"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("loss_adjoint: at most ")
    assert "train.py:7" in text
    assert "by jax.value_and_grad" in text.splitlines()[-1]


def test_a_budget_and_a_result_beside_the_loss(file: str, capsys: Capture) -> None:
    asked = ["--args", "params, batch", "--has-aux", "--budget", "1MiB", "--json"]
    assert main(["memory", f"{file}:pair", *asked]) == 0
    assert json.loads(capsys.readouterr().out)["budget"] == 2**20


DEEP = """
import jax
import jax.numpy as jnp

def loss(weights, x):
    for w in weights:
        x = jax.nn.gelu(x @ w)
    return jnp.mean(x * x)

weights, x = [jnp.eye(64)] * 4, jnp.ones((256, 64))
"""


def test_without_options_it_is_planned_as_value_and_grad_does(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "deep.py"
    path.write_text(DEEP)
    names: dict[str, Any] = {}
    exec(DEEP, names)
    found = []
    for options in ([], ["--policy", "free"]):
        asked = ["memory", f"{path}:loss", "--args", "weights, x", "--json", *options]
        assert main(asked) == 0
        values = json.loads(capsys.readouterr().out)["values"]
        found.append([value["name"] for value in values if not value["kept"]])
    by_default = relaxjax.value_and_grad(names["loss"]).memory(names["weights"], names["x"])
    assert found[0] == [row.name for row in by_default.recomputed]
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("loss", [], "`loss` is called with arrays: give its arguments, such as --args"),
        ("loss", ["--args", "params, lot"], "--args 'params, lot': NameError: name 'lot' is not"),
        ("loss", ["--args", "params"], "loss() missing 1 required positional argument: 'batch'"),
        ("los", ["--args", "params"], "has no function `los`; it has loss, pair"),
        ("loss", ["--args", "params, batch", "--set", "n=1"], "--set is for a script: "),
        ("loss", ["--args", "params, batch", "--keep", "a"], "--keep is for a script: "),
    ],
)
def test_errors_say_what_to_write(
    name: str, options: list[str], message: str, file: str, capsys: Capture
) -> None:
    assert main(["memory", f"{file}:{name}", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_file_that_is_not_there_or_fails(tmp_path: Path, capsys: Capture) -> None:
    assert main(["memory", f"{tmp_path}/none.py:loss", "--args", "x"]) == 2
    assert "there is no file `" in capsys.readouterr().err
    (tmp_path / "bad.py").write_text("1 / 0")
    assert main(["memory", f"{tmp_path}/bad.py:loss", "--args", "x"]) == 2
    assert "cannot be run: ZeroDivisionError: division by zero" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["memory", "explore"])
def test_an_error_of_the_loss_has_its_line(command: str, file: str, capsys: Capture) -> None:
    assert main([command, f"{file}:loss", "--args", "batch, batch"]) == 2
    text = capsys.readouterr().err
    assert f"train.py:7:23\n    {FILE.splitlines()[6].strip()}\n" in text
    assert text.count("train.py:7") == 1


def test_an_error_that_names_its_line_does_so_once(tmp_path: Path, capsys: Capture) -> None:
    """As one of a primitive that has effects, which the reader finds at the line."""
    path = tmp_path / "train.py"
    path.write_text("import jax\n\n\ndef loss(x):\n    return jax.new_ref(x)[...].sum()\n")
    assert main(["memory", f"{path}:loss", "--args", "jax.numpy.ones(3)"]) == 2
    text = capsys.readouterr().err
    assert "`new_ref` has side effects" in text
    assert text.count("train.py:5") == 1


def test_options_of_a_loss_in_jax_are_not_for_scripts(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.py"
    path.write_text('@R.function\ndef main(x: R.Tensor((), "float32")):\n    return x')
    assert main(["memory", str(path), "--jax"]) == 2
    assert "--jax is for a loss written in JAX: name it behind its file" in capsys.readouterr().err
