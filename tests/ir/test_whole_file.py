"""Files written whole: the old content or the new one, and nothing beside it."""

import os
import stat
from pathlib import Path

import pytest

from relaxjax.ir.whole_file import remove_abandoned, write_whole


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    path = tmp_path / "new"
    write_whole(path, b"content")
    assert path.read_bytes() == b"content"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert list(tmp_path.iterdir()) == [path]


def test_an_old_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    path, link = tmp_path / "old", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_device_is_written_as_it_is() -> None:
    write_whole(os.devnull, b"gone")
    assert not Path(os.devnull).is_file()


def test_a_failure_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*file'"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere no open file can be removed")
def test_only_what_nobody_writes_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_at_by_another(handle: int) -> None:
        for part in tmp_path.glob(".file.*.part"):
            remove_abandoned(part)

    monkeypatch.setattr(os, "fsync", looked_at_by_another)
    write_whole(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    left = tmp_path / ".file.1234abcd.part"
    left.write_bytes(b"half")
    for _ in range(2):
        remove_abandoned(left)
        assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"content")


def test_an_error_names_the_file_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"'none/file'$"):
        write_whole("none/file", b"content")
