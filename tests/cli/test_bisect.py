"""`relaxjax bisect`: which pass breaks a check."""

from pathlib import Path

import pytest

from relaxjax.cli import main

MODEL = """
from relaxjax.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.exp(x)
        z = R.exp(x)
        w = R.add(y, z)
        return w
"""
PIPELINE = "Normalize,CanonicalizeBindings,EliminateCommonSubexpr,DeadCodeElimination"


def bisected(tmp_path: Path, check: str, *options: str) -> int:
    model, script = tmp_path / "model.py", tmp_path / "check.py"
    model.write_text(MODEL)
    script.write_text(check)
    return main(["bisect", str(model), "--check", str(script), *options])


def test_the_pass_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = 'assert str(module).count("R.exp") == 2, "too few"\n'
    assert bisected(tmp_path, check, "-p", PIPELINE) == 1
    out = capsys.readouterr().out
    assert out == (
        "pass 3 of 4 breaks the check: EliminateCommonSubexpr\n    AssertionError: too few\n"
    )


@pytest.mark.parametrize(("code", "said"), [("1", "1"), ("'too few'", "'too few'")])
def test_a_check_may_end_as_scripts_do(
    code: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = f'import sys\nsys.exit({code} if str(module).count("R.exp") < 2 else 0)\n'
    assert bisected(tmp_path, check, "-p", PIPELINE) == 1
    out = capsys.readouterr().out
    assert out == (
        "pass 3 of 4 breaks the check: EliminateCommonSubexpr\n"
        f"    RuntimeError: it ends with {said}\n"
    )


def test_a_pass_that_fails_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(tmp_path, "", "-p", "Normalize,Gradient{func_name=mian},Normalize") == 1
    out = capsys.readouterr().out
    assert out.startswith("pass 2 of 3 breaks the check: Gradient{func_name=mian}\n")


def test_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the standard pipeline, of a level."""
    assert bisected(tmp_path, 'assert "main" in module\n', "--opt-level", "0") == 0
    assert capsys.readouterr().out.startswith("the check passes after all ")


def test_what_cannot_be_bisected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(tmp_path, 'assert "R.sin" in str(module)\n') == 2
    assert "the check fails before any pass: AssertionError" in capsys.readouterr().err
    model = tmp_path / "model.py"
    assert main(["bisect", str(model), "--check", str(tmp_path / "none.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
