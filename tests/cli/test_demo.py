"""The demo: it learns, it saves, it repeats itself, it shows the adjoint."""

import os
import re
import sys
from pathlib import Path

import pytest

from relaxjax import Trainer, VirtualMachine, build
from relaxjax.cli.demo import LEAST_WIDTH, NARROWEST, model_and_adjoint, side_by_side, trainable
from relaxjax.cli.entry import main


def accuracies(printed: str) -> list[float]:
    return [float(found) for found in re.findall(r"accuracy +([\d.]+)%", printed)]


@pytest.mark.smoke
def test_the_demo_reads_digits_and_saves_what_it_learnt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new folder" / "model.safetensors"
    assert main(["demo", "--out", str(path)]) == 0
    printed = capsys.readouterr().out
    assert len(accuracies(printed)) == 16  # one an epoch, and the last once more
    assert accuracies(printed)[-1] >= 95
    assert printed.splitlines()[-1].endswith(f"the model is saved in {path.resolve()}")
    mod = trainable(lr=0.1)
    Trainer(mod, VirtualMachine(build(mod))).load(path)


def test_the_seed_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = []
    for seed in ("1", "1", "2"):
        main(["demo", "--epochs", "1", "--seed", seed, "--out", str(tmp_path / "model")])
        losses.append(re.findall(r"loss ([\d.]+)", capsys.readouterr().out))
    assert losses[0] == losses[1] != losses[2]


def test_the_model_is_shown_beside_its_adjoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["demo", "--show"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"lv0 = R\.matmul\(x, w0.* \| +lv0 = R\.matmul\(x, w0", printed)
    assert re.search(r"^ +\| +w0_adjoint_out = w0_adjoint$", printed, re.MULTILINE)
    assert not os.listdir(tmp_path)


def test_programs_are_shown_in_colour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygments")
    script = tmp_path / "model.py"
    script.write_text("@R.function\ndef f(x: R.Tensor((3,), 'float32')):\n    return x\n")
    for arguments in (["demo", "--show"], ["opt", str(script)]):
        assert main(arguments) == 0
        plain = capsys.readouterr().out
        with monkeypatch.context() as patched:
            patched.setattr(type(sys.stdout), "isatty", lambda self: True)
            assert main(arguments) == 0
        coloured = capsys.readouterr().out
        assert coloured != plain
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_the_adjoint_comes_after_the_model_where_the_terminal_is_narrow() -> None:
    text = model_and_adjoint(80)
    assert " | " not in text
    assert text.index("def backbone(") < text.index("def backbone_loss_adjoint(")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "must be above zero, found 0"),
        ("--epochs", "two", "invalid int value: 'two'"),
        ("--lr", "-1", "must be above zero, found -1"),
        ("--lr", "inf", "must be above zero and finite, found inf"),
        ("--seed", "-5", "must be at least 0, found -5"),
        ("--out", "", "argument --out: must be a name, found an empty text"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", f"{option}={value}"])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "is a folder: give the name of a file by --out" in captured.err
    (tmp_path / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "file" / "model")]) == 2
    (tmp_path / "script.py").write_text("x = 1\n")
    assert main(["demo", "--out", str(tmp_path / "script.py")]) == 2
    assert "is there and no saved model: it is not written over" in capsys.readouterr().err
    assert (tmp_path / "script.py").read_text() == "x = 1\n"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert main(["demo", "--out", str(tmp_path / "model")]) == 2
    assert "nothing can be written into" in capsys.readouterr().err
    assert not captured.out


@pytest.mark.parametrize("width", [80, 100, 130])
def test_the_model_and_its_adjoint_fit_the_terminal(width: int) -> None:
    lines = model_and_adjoint(width).splitlines()
    assert max(map(len, lines)) <= width
    bindings = [line for line in lines if " = " in line]
    assert not [line for line in bindings if re.search(r"^ *\w+: ", line)]  # no types


WIDE = 2 * NARROWEST + 3


def test_two_columns() -> None:
    lines = side_by_side("a\n  b", "one\ntwo\nthree", WIDE).splitlines()
    assert [[part.rstrip() for part in line.split(" | ")] for line in lines] == [
        ["a", "one"],
        ["  b", "two"],
        ["", "three"],
    ]
    assert {line.index("|") for line in lines} == {NARROWEST + 1}


def test_marked_lines_stand_beside_each_other() -> None:
    lines = side_by_side("a\nMARK\nb", "1\n2\n3\nMARK\n4", WIDE, align="MARK").splitlines()
    assert [line.split() for line in lines] == [
        ["a", "|", "1"],
        ["|", "2"],
        ["|", "3"],
        ["MARK", "|", "MARK"],
        ["b", "|", "4"],
    ]


def test_one_after_the_other_where_it_is_too_narrow() -> None:
    assert LEAST_WIDTH == WIDE
    assert side_by_side("a", "b", WIDE - 1) == "a\n\nb"


def test_a_long_line_goes_on_below_indented_deeper() -> None:
    words = "    call(" + ", ".join(f"argument{i}" for i in range(12)) + ")"
    first, second, *_ = side_by_side(words, "", WIDE).splitlines()
    assert first.startswith("    call(argument0,")
    assert second.startswith(" " * 12 + "argument")


@pytest.mark.parametrize("text", ["", "\n\n", "word" * 100])
def test_no_line_is_wider_than_the_terminal(text: str) -> None:
    assert all(len(line) <= WIDE for line in side_by_side(text, text, WIDE).splitlines())
