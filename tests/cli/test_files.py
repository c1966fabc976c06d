"""Reading scripts and writing results, from files and to files of every unwelcome kind."""

import io
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file
from small_models import classifier

from relaxjax.cli.failure import InputError, bad_input
from relaxjax.cli.files import read_module, write_text
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.script import save_archive

SCRIPT = """
@I.ir_module
class Module:
    @R.function
    def f(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.add(x, x)
        return y
"""

FUNCTION = """
@R.function
def double(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = R.add(x, x)
    return y
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "model.py"


def failure(path: Path | str) -> str:
    with pytest.raises(InputError) as error, bad_input():
        read_module(str(path))
    return str(error.value)


def test_a_module(script: Path) -> None:
    script.write_text(SCRIPT)
    assert list(read_module(str(script))) == ["f"]


def test_a_single_function_is_a_module_of_one(script: Path) -> None:
    script.write_text(FUNCTION)
    assert list(read_module(str(script))) == ["double"]


def test_a_byte_order_mark_is_no_part_of_the_text(script: Path) -> None:
    script.write_text(SCRIPT, encoding="utf-8-sig")
    assert list(read_module(str(script))) == ["f"]


def test_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SCRIPT.encode())))
    assert list(read_module("-")) == ["f"]


def test_a_script_is_not_executed(script: Path) -> None:
    trap = script.with_name("trap")
    script.write_text(f"open({str(trap)!r}, 'w').close()\n{SCRIPT}")
    assert "model.py:1:1" in failure(script)
    assert not trap.exists()


def test_a_missing_file(script: Path) -> None:
    assert failure(script) == f"`{script}`: No such file or directory"


def test_a_folder(tmp_path: Path) -> None:
    assert failure(tmp_path) == f"`{tmp_path}`: Is a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="whoever is root may read everything")
def test_an_unreadable_file(script: Path) -> None:
    script.write_text(SCRIPT)
    script.chmod(0)
    assert failure(script) == f"`{script}`: Permission denied"


def test_an_unreadable_file_for_root_too(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert failure(script) == f"`{script}`: Permission denied"


def test_what_is_no_text(script: Path) -> None:
    script.write_bytes(SCRIPT.encode() + b"# caf\xe9\n")
    assert failure(script) == f"`{script}` is not UTF-8 text: byte 0xe9 in line 8"


def test_what_is_no_text_on_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    assert failure("-") == "the standard input is not UTF-8 text: byte 0xff in line 1"


def test_the_module_of_an_archive_and_of_what_a_trainer_saved(tmp_path: Path) -> None:
    path, trainer = tmp_path / "model.safetensors", classifier()
    save_archive(trainer.mod, path)
    assert_structural_equal(read_module(str(path)), trainer.mod)
    trainer.save(path)
    assert_structural_equal(read_module(str(path)), trainer.mod)


def test_another_file_of_tensors_is_no_module(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"w": np.ones(3)}, path)
    assert failure(path) == (
        f"`{path}` is no archive: its format is None, expected 'relaxjax archive 1'; give an "
        "archive, or what a trainer saved"
    )
    path.write_bytes(b"\xf8\x01" + bytes(6))
    assert failure(path).startswith(f"`{path}` is damaged or no safetensors file: ")
    assert failure(path).endswith("; give an archive, or what a trainer saved")


@pytest.mark.parametrize("text", ["", "  \n\n"])
def test_an_empty_file(text: str, script: Path) -> None:
    script.write_text(text)
    assert failure(script) == f"`{script}` is empty: it should hold a module"


def test_a_null_byte(script: Path) -> None:
    script.write_text("x\n\0")
    found = failure(script)
    assert found.startswith(f"`{script}` is no text: there is a null character in line 2; an arch")
    assert found.endswith("is read from a file whose name ends in .safetensors")


def test_a_file_that_is_cut_off_shows_the_place(script: Path) -> None:
    script.write_text(SCRIPT[: SCRIPT.index("x, x)")])
    assert failure(script) == (
        "'(' was never closed\n"
        f"  at {script}:6:18\n"
        "    y = R.add(\n"
        "             ^"
    )  # fmt: skip


def test_a_file_that_ends_too_early_shows_the_place(script: Path) -> None:
    script.write_text(SCRIPT[: SCRIPT.index("        y =")])
    message = failure(script)
    assert "expected an indented block" in message
    assert f"  at {script}:5" in message


def test_a_file_that_holds_no_module_says_so(script: Path) -> None:
    script.write_text("x = 3\n")
    message = failure(script)
    assert "module" in message
    assert "Traceback" not in message


def test_a_file_of_another_language(script: Path) -> None:
    script.write_text('{"a": [1, 2}\n')
    assert f"  at {script}:1:12" in failure(script)


def test_an_unknown_operator_shows_the_place(script: Path) -> None:
    script.write_text(SCRIPT.replace("R.add", "R.ad"))
    message = failure(script)
    assert f"  at {script}:6:" in message
    assert "y = R.ad(x, x)" in message
    assert "there is no `R.ad`; did you mean `R.add`" in message


def test_writing(script: Path) -> None:
    write_text(str(script), "new ☃\n")
    assert script.read_text(encoding="utf-8") == "new ☃\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o666 & ~_umask()
    assert list(script.parent.iterdir()) == [script]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_writing_over_a_file_keeps_its_mode(script: Path) -> None:
    script.write_text("old")
    script.chmod(0o640)
    write_text(str(script), "new")
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o640


def test_writing_through_a_link_keeps_the_link(script: Path) -> None:
    script.write_text("old")
    link = script.with_name("link.py")
    link.symlink_to(script)
    write_text(str(link), "new")
    assert link.is_symlink()
    assert script.read_text() == "new"


def test_writing_to_a_device() -> None:
    write_text(os.devnull, "gone")
    assert not Path(os.devnull).is_file()


def unwritable(path: Path | str, text: str = "new") -> str:
    with pytest.raises(InputError) as error:
        write_text(str(path), text)
    return str(error.value)


def test_a_folder_cannot_be_written(tmp_path: Path) -> None:
    assert unwritable(tmp_path) == f"`{tmp_path}` is a folder: it cannot be written as a file"
    assert unwritable("") == "the name of the file to write is empty"


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "out.py"
    assert unwritable(path) == f"`{path}` cannot be written: No such file or directory"


def test_a_file_that_may_not_be_written(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anything, so the question is answered for it."""
    script.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert unwritable(script) == f"`{script}` may not be written"
    assert script.read_text() == "old"


def test_a_disk_that_is_full_loses_nothing(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    script.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    assert unwritable(script) == f"`{script}` cannot be written: No space left on device"
    assert script.read_text() == "old"
    assert list(script.parent.iterdir()) == [script]
