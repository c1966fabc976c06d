"""`relaxjax export`: a script in, and out of it what other programs run or read."""

import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import export as jax_export

from relaxjax.cli import main
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.script import from_source, load_archive

SCRIPT = """
@I.ir_module
class Module:
    @R.function
    def double(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        y = R.add(x, x)
        return y

    @R.function
    def square(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.multiply(x, x)
        return y
"""
X = np.arange(3, dtype="float32")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


TARGETS = "the targets are llvm, c, cpu, cuda, gpu, nvidia, rocm, tpu, or a JAX device or sharding"
Capture = pytest.CaptureFixture[str]


def test_plain_jax_is_printed(script: Path, capsys: Capture) -> None:
    assert main(["export", str(script), "--format", "python", "--function", "square"]) == 0
    text, errors = capsys.readouterr()
    assert errors == ""
    names: dict[str, object] = {}
    exec(text, names)
    assert names["square"](X).tolist() == [0, 1, 4]  # type: ignore[operator]  # a function
    assert "double" not in names


def test_plain_jax_is_written(script: Path, out: Path, capsys: Capture) -> None:
    assert main(["export", str(script), "--format", "python", "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    assert "def double(x):" in out.read_text()
    assert "def square(x):" in out.read_text()


def test_stablehlo_is_printed(script: Path, capsys: Capture) -> None:
    options = ["--format", "mlir", "--function", "square", "--platform", "cuda"]
    assert main(["export", str(script), *options]) == 0
    assert "stablehlo.multiply %arg0, %arg0 : tensor<3xf32>" in capsys.readouterr().out


def test_artifacts_of_jax_are_written(script: Path, out: Path) -> None:
    options = ["--format", "jax_export", "--platform", "cpu", "--vjp-order", "1", "-o", str(out)]
    assert main(["export", str(script), *options]) == 0
    with zipfile.ZipFile(out) as archive:
        data = {name: archive.read(name) for name in archive.namelist()}
    double = jax_export.deserialize(bytearray(data["double.jax_export"]))
    assert double.platforms == ("cpu",)
    assert jax.grad(lambda x: double.call(x).sum())(X).tolist() == [2, 2, 2]


def test_an_artifact_runs_on_all_platforms_by_default(script: Path, out: Path) -> None:
    options = ["--format", "jax_export", "--function", "square", "-o", str(out)]
    assert main(["export", str(script), *options]) == 0
    square = jax_export.deserialize(bytearray(out.read_bytes()))
    assert square.platforms == ("cpu", "cuda", "tpu")


def test_an_archive_is_written(script: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    assert main(["export", str(script), "--format", "archive", "-o", str(out)]) == 0
    mod, params = load_archive(out)
    assert_structural_equal(mod, from_source(SCRIPT))
    assert params == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["archive"], "--format archive is no text: give the file to write by -o"),
        (["jax_export"], "--format jax_export is no text: give the file to write by -o"),
        (["python", "--platform", "cpu"], "`--platform` is not for --format python"),
        (["mlir", "--vjp-order", "1"], "`--vjp-order` is not for --format mlir"),
        (["archive", "-o", "q.v1.txt"],
         ("`q.v1.txt` would not be read again: the name of an archive ends in .safetensors; give "
          "q.v1.safetensors")),
        (["python", "-o", "x.safetensors"],
         ("`x.safetensors` would not be read again: this is text, and a name that ends in "
          ".safetensors is that of an archive; give one that ends in .py or .txt")),
        (["python", "-o", "x.pt2"],
         ("`x.pt2` would not be read again: this is text, and a name that ends in .pt2 is that of "
          "a model of PyTorch; give one that ends in .py or .txt")),
        (["archive", "-o", "x", "--function", "f"], "`--function` is not for --format archive"),
        (["mlir", "--platform", "cpu", "--platform", "tpu"],
         "--format mlir is one function on one platform"),
        (["jax_export", "-o", "x", "--vjp-order", "-1"],
         ("`--vjp-order` must be a whole number from 0 to 12, found -1: the file holds each "
          "derivative, nearly twice as large as the one before")),
        (["mlir", "--platform", "gqu"],
         f"there is no target `gqu`: {TARGETS}; did you mean `gpu`?"),
        (["python", "--function", "squore"],
         "the module has no function `squore`; it has `double`, `square`; did you mean `square`?"),
        (["mlir"], "the module has 2 public functions, `double`, `square`: name one"),
    ],
)  # fmt: skip
def test_wrong_options(options: list[str], message: str, script: Path, capsys: Capture) -> None:
    assert main(["export", str(script), "--format", *options]) == 2
    assert capsys.readouterr() == ("", f"relaxjax: error: {message}\n")


def test_an_output_that_cannot_be_written(script: Path, tmp_path: Path, capsys: Capture) -> None:
    for form in ("python", "archive", "jax_export"):
        assert main(["export", str(script), "--format", form, "-o", str(tmp_path)]) == 2
        message = f"relaxjax: error: `{tmp_path}` is a folder: it cannot be written as a file\n"
        assert capsys.readouterr() == ("", message)
    missing = tmp_path / "missing" / "out.safetensors"
    assert main(["export", str(script), "--format", "archive", "-o", str(missing)]) == 2
    message = f"relaxjax: error: `{missing}` cannot be written: No such file or directory\n"
    assert capsys.readouterr() == ("", message)


def test_a_file_that_is_no_module(script: Path, capsys: Capture) -> None:
    script.write_text("x = 3\n")
    assert main(["export", str(script), "--format", "python"]) == 2
    assert "the text defines no module and no function" in capsys.readouterr().err


def test_what_cannot_be_written_is_no_fault_of_the_command_line(
    script: Path, out: Path, capsys: Capture
) -> None:
    script.write_text(SCRIPT.replace("R.multiply(x, x)", "R.unique(x)"))
    assert main(["export", str(script), "--format", "python", "-o", str(out)]) == 1
    assert "cannot be written as plain JAX" in capsys.readouterr().err
    assert not out.exists()


def test_what_predicts_is_written(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "norm.py"
    path.write_text(
        "@R.function\n"
        'def main(x: R.Tensor((3, 2), "float32"), g: R.Tensor((2,), "float32")):\n'
        "    y = R.nn.batch_norm(x, g, g, g, g, axis=1, training=True)\n"
        "    z = y[0]\n"
        "    return z\n"
    )
    for options, sums in ([], True), (["--inference"], False):
        assert main(["export", str(path), "--format", "python", *options]) == 0
        assert ("lax.reduce_sum" in capsys.readouterr().out) == sums
