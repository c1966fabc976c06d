"""Files written whole or not at all, and what is in the way of a folder.

Whoever looks at a file finds the old content or the new one.
"""

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file in one step, after the new content has reached the disk.

    A link stays a link to the file, whose mode is kept. What is no file, such as a pipe or a
    device, is written as it comes.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            _lock(file)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = os.fspath(path)  # not that of the part, which nobody gave
        raise
    _sync_folder(target.parent)


def remove_abandoned(part: Path) -> None:
    """Remove a part whose writer died; one that is being written stays, locked by its writer."""
    with suppress(OSError):
        with part.open("rb") as file:
            is_free = _lock(file)
        if is_free:
            part.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Lock an open file, as far as the file system can; whether nobody else has locked it."""
    if os.name != "posix":
        return True  # there, a file that is open cannot be removed
    import fcntl

    with suppress(OSError):  # of a file system without locks
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where folders can be opened."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def obstacle(folder: Path) -> str | None:
    """What is in the way of a folder: a file, or a link to nothing; None where it can be."""
    place = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if place.is_dir():
        return None
    if place.is_symlink() and not place.exists():
        return f"`{place}` is a link to `{place.readlink()}`, which is not there"
    return f"`{place}` is a file"
