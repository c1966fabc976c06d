"""Places for folders that are to be made."""

import os
from pathlib import Path


def obstacle(folder: Path) -> str | None:
    """What is in the way of a folder: a file, or a link to nothing; None where it can be."""
    place = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if place.is_dir():
        return None
    if place.is_symlink() and not place.exists():
        return f"`{place}` is a link to `{place.readlink()}`, which is not there"
    return f"`{place}` is a file"
