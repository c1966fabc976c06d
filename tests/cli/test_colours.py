"""Every command has colours on a terminal, none in a pipe, and none where nobody wants them."""

import re
import sys
from pathlib import Path

import pytest

from relaxjax.cli import main
from relaxjax.cli.parser import COMMANDS

SCRIPT = """
@R.function
def main(x: R.Tensor((4, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    with R.dataflow():
        unused = R.exp(x)
        a = R.matmul(x, w)
        b = R.tanh(a)
        c = R.matmul(b, w)
        loss = R.sum(c)
        R.output(loss)
    return loss
"""

# Of each command some words, and how they begin where they are coloured.
CASES = {
    "opt": (["{script}", "-p", "DeadCodeElimination", "--diff"], "\x1b[31m-         unused"),
    "passes": (["FoldConstant"], "\x1b[1mFoldConstant\x1b[0m  "),
    "bisect": (
        ["{script}", "-p", "DeadCodeElimination", "--check", "{check}"],
        "\x1b[31mDeadCodeElimination\x1b[0m\n",
    ),
    "ops": (["relax.tanh"], "\x1b[1mrelax.tanh(x)\x1b[0m\n"),
    "memory": (["{script}", "--recompute", "b"], "\x1b[33mb  "),
    "doctor": ([], "\x1b[32mall that is needed works\x1b[0m\n"),
}
# Others colour programs by pygments, or what stands below a training; completion writes a script,
# explore a page, and plan a table alone.
ELSEWHERE = {"export", "demo", "train", "predict", "completion", "explore", "plan"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "model.py").write_text(SCRIPT)
    (tmp_path / "check.py").write_text('assert "unused" in str(module)\n')
    return {"script": str(tmp_path / "model.py"), "check": str(tmp_path / "check.py")}


def test_every_command_is_looked_at() -> None:
    assert {*CASES, *ELSEWHERE} == set(COMMANDS)


@pytest.mark.parametrize("command", CASES)
def test_a_terminal_has_colours_and_a_pipe_has_none(
    command: str,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments, coloured = CASES[command]
    line = [command, *(each.format(**files) for each in arguments)]
    main(line)
    plain = capsys.readouterr().out
    assert "\x1b[" not in plain
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    main(line)
    shown = capsys.readouterr().out
    assert coloured in shown
    assert re.sub(r"\x1b\[\d+m", "", shown) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    main(line)
    assert capsys.readouterr().out == plain


def test_a_python_program_is_exported_in_colour(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygments")
    line = ["export", files["script"], "--format", "python"]
    assert main(line) == 0
    plain = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(line) == 0
    shown = capsys.readouterr().out
    assert shown != plain
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == plain


def test_what_is_printed_after_each_pass_goes_by_the_stream_it_goes_to(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    line = ["opt", files["script"], "-p", "DeadCodeElimination", "--print-after-all"]
    assert main(line) == 0
    output, errors = capsys.readouterr()
    assert "\x1b[" not in output
    assert errors.startswith("\x1b[1m# after DeadCodeElimination\x1b[0m\n")


def test_errors_are_red(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["opt", "nowhere.py"]) == 2
    assert capsys.readouterr().err.startswith("\x1b[31mrelaxjax: error:\x1b[0m `nowhere.py`: ")
    with pytest.raises(SystemExit, match="2"):
        main(["opt", "nowhere.py", "--nothing"])
    assert capsys.readouterr().err.startswith(
        "\x1b[31mrelaxjax opt: error:\x1b[0m there is no such"
    )
