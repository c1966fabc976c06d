"""`relaxjax opt`: a script in, a script out."""

import sys
from pathlib import Path

import pytest
from parsing import parse_module

from relaxjax.cli import main
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.passes.infrastructure.context import PassContext
from relaxjax.script import from_source

BEFORE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        unused = R.multiply(x, x)
        y = R.add(x, x)
        return y
"""

AFTER = BEFORE.replace("        unused = R.multiply(x, x)\n", "")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(BEFORE)
    return path


Capture = pytest.CaptureFixture[str]


def check(printed: str, expected: str) -> None:
    read = parse_module(printed)
    assert_structural_equal(read, from_source(expected))


def test_the_result_is_printed(script: Path, capsys: Capture) -> None:
    assert main(["opt", str(script), "-p", "DeadCodeElimination"]) == 0
    output, errors = capsys.readouterr()
    check(output, AFTER)
    assert errors == ""


def test_no_passes_print_the_module(script: Path, capsys: Capture) -> None:
    assert main(["opt", str(script)]) == 0
    check(capsys.readouterr().out, BEFORE)


def test_options_of_passes(script: Path, capsys: Capture) -> None:
    assert main(["opt", str(script), "-p", "DeadCodeElimination{entry=[]}"]) == 0
    assert "def main" not in capsys.readouterr().out


def test_what_is_printed_can_be_read_again(script: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.py"
    assert main(["opt", str(script), "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["opt", str(out), "-p", "DeadCodeElimination", "-o", str(out)]) == 0
    check(out.read_text(), AFTER)


def test_levels_and_disabled_passes(script: Path, capsys: Capture) -> None:
    passes = ["-p", "Normalize,DeadCodeElimination"]
    assert main(["opt", str(script), *passes, "--opt-level", "0"]) == 0
    check(capsys.readouterr().out, BEFORE)
    disabled = ["--disable", "DeadCodeElimination", "--disable", "Normalize"]
    assert main(["opt", str(script), *passes, *disabled]) == 0
    check(capsys.readouterr().out, BEFORE)


def test_what_is_shown_besides_the_result_goes_to_the_standard_error(
    script: Path, capsys: Capture
) -> None:
    arguments = ["-p", "DeadCodeElimination", "--print-after-all", "--timing"]
    assert main(["opt", str(script), *arguments]) == 0
    output, errors = capsys.readouterr()
    check(output, AFTER)
    assert errors.count("# after DeadCodeElimination\n") == 1
    assert errors.count("# after sequential\n") == 1
    assert "\tDeadCodeElimination: " in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-p", "Normalise"],
            "there is no pass `Normalise`; did you mean `Normalize`?\n    Normalise\n    ^^^^^^^^^",
        ),
        (
            ["-p", "Normalize{x=1}"],
            "`Normalize` has no option `x`: it has none\n    Normalize{x=1}\n              ^",
        ),
        (
            ["--disable", "AppendLos"],
            (
                "`disabled_pass` names `AppendLos`, but there is no such pass; "
                "did you mean `AppendLoss` or `AppendAdjoint`?"
            ),
        ),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, script: Path, capsys: Capture) -> None:
    assert main(["opt", str(script), *arguments]) == 2
    assert capsys.readouterr() == ("", f"relaxjax: error: {message}\n")


def test_bad_files_are_one_message_and_leave_the_output_alone(
    script: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out.py"
    out.write_text("old")
    script.write_text(BEFORE[:-20])
    assert main(["opt", str(script), "-o", str(out)]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("relaxjax: error: ")
    assert f"  at {script}:7:" in errors
    assert "Traceback" not in errors
    assert out.read_text() == "old"
    assert main(["opt", str(tmp_path / "missing.py")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_output_that_cannot_be_written(script: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["opt", str(script), "-o", str(tmp_path)]) == 2
    message = f"relaxjax: error: `{tmp_path}` is a folder: it cannot be written as a file\n"
    assert capsys.readouterr() == ("", message)


def test_a_pass_that_fails(script: Path, tmp_path: Path, capsys: Capture) -> None:
    """Another exit code tells it from wrong input; the context is left all the same."""
    out = tmp_path / "out.py"
    default = PassContext.current()
    arguments = ["-p", "DeadCodeElimination{entry=[mian]}", "-o", str(out)]
    assert main(["opt", str(script), *arguments]) == 1
    assert capsys.readouterr().err == (
        "relaxjax: error: the module has no function `mian`; it has `main`; did you mean `main`?\n"
        "in the pass `DeadCodeElimination`\n"
        "in the pass `sequential`\n"
    )
    assert not out.exists()
    assert PassContext.current() is default


def test_what_each_pass_changed_is_shown_instead_of_the_result(
    script: Path, tmp_path: Path, capsys: Capture
) -> None:
    arguments = ["opt", str(script), "-p", "DeadCodeElimination,CanonicalizeBindings", "--diff"]
    assert main(arguments) == 0
    output, errors = capsys.readouterr()
    kind = 'R.Tensor((3,), dtype="float32")'
    assert output == (
        "## DeadCodeElimination\n"
        "# main: 1 line removed\n"
        f"      x: {kind},\n"
        f"  ) -> {kind}:\n"
        f"-     unused: {kind} = R.multiply(x, x)\n"
        f"      y: {kind} = R.add(x, x)\n"
        "      return y\n"
        "\n"
        "## CanonicalizeBindings: nothing changed\n"
        "\n"
    )
    assert errors == ""
    out = tmp_path / "out.py"
    assert main([*arguments, "-o", str(out)]) == 0
    assert capsys.readouterr().out == output
    check(out.read_text(), AFTER)


def test_passes_inside_of_a_pass_are_shown_as_one_change(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scalar = BEFORE.replace("y = R.add(x, x)", "y = R.sum(R.sin(x))")
    script = tmp_path / "loss.py"
    script.write_text(scalar.replace('-> R.Tensor((3,), "float32")', '-> R.Tensor((), "float32")'))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    assert main(["opt", str(script), "-p", "Gradient{func_name=main}", "--diff"]) == 0
    output = capsys.readouterr().out
    assert output.count("## ") == 1
    assert output.startswith("\x1b[1m## Gradient\x1b[0m\n\x1b[1m# main_adjoint: new, ")
    assert "\x1b[32m+ def main_adjoint(\x1b[0m\n" in output
