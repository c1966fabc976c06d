"""`relaxjax completion`: what shells offer, asked of those that are installed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from relaxjax.cli import main
from relaxjax.cli.parser import COMMANDS, every_command


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def offered_by_bash(text: str, words: list[str], folder: Path) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _relaxjax"
    return answers(["bash", "-c", f"{text}\n{asked}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""], folder)


def offered_by_fish(text: str, words: list[str], folder: Path) -> list[str]:
    lines = answers(
        ["fish", "--no-config", "-c", f"{text}\ncomplete -C '{' '.join(words)}'"], folder
    )
    return [line.split("\t")[0].rstrip("/") for line in lines]


def answers(command: list[str], folder: Path) -> list[str]:
    shell = command[0]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert not result.stderr
    return [line for line in result.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("shell", "ask"), [("bash", offered_by_bash), ("fish", offered_by_fish)], ids=["bash", "fish"]
)
def test_a_shell_offers_what_fits(
    shell: str,
    ask: Callable[[str, list[str], Path], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "my model.py").touch()
    (tmp_path / "runs").mkdir()
    text = script(shell, capsys)

    def offered(*words: str) -> list[str]:
        return ask(text, ["relaxjax", *words], tmp_path)

    assert set(COMMANDS) <= set(offered(""))
    assert offered("pr") == ["predict"]
    assert offered("export", "--format", "m") == ["mlir"]
    assert offered("train", "--optim", "nadam") == ["nadam", "nadamw"]
    assert {"--epochs", "--resume", "--traceback"} <= set(offered("train", "--"))
    assert "--resume" not in offered("predict", "--")
    assert offered("train", "--epochs", "") == []
    assert offered("completion", "f") == ["fish"]
    assert {name.replace("\\", "") for name in offered("opt", "")} == {"my model.py", "runs"}
    assert offered("train", "--out", "") == ["runs"]


def test_zsh_is_given_what_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own functions show what they are asked to offer."""
    shown = (
        "_arguments() { print -rl -- $@ }; _describe() { print -rl -- ${(P)2} }; compdef() { : }"
    )
    start = f"{shown}\n{script('zsh', capsys)}\n"
    asked = start + "words=(relaxjax ''); CURRENT=2; _relaxjax"
    lines = answers(["zsh", "-fc", asked], tmp_path)
    assert lines == [f"{name}:{summary}" for name, summary in COMMANDS.items()]
    asked = start + "words=(relaxjax export ''); CURRENT=3; _relaxjax"
    lines = answers(["zsh", "-fc", asked], tmp_path)
    assert "*:FILE:_files" in lines
    assert "*--format[the form to write]:choices:(jax_export python mlir archive)" in [
        line.replace(":FORMAT:", ":choices:") for line in lines
    ]
    assert any(line.startswith("*-o[the file to write (for python") for line in lines)
    assert "*--traceback[show where in Python an error was raised]" in lines


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    for parser in every_command().values():
        for action in parser._actions:
            for flag in action.option_strings:
                assert (
                    f"-l {flag[2:]} " if shell == "fish" and flag[1] == "-" else flag[1:]
                ) in text


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "csh"])
    assert "invalid choice: 'csh'" in capsys.readouterr().err
