"""What XLA has counted of plans, kept on disk for the next process that plans the same program."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from relaxjax.ir.function import Function
from relaxjax.ir.whole_file import write_whole
from relaxjax.passes.infrastructure.kept_files import digest_of, kept_folder, versions

_FOLDER = "plans"


class KeptCounts:
    """The bytes of programs, each known by its text, which are variants of one.

    They lie in a file that is named by the text of that one, lowered, and by what compiles it. A
    file that cannot be read counts for nothing.
    """

    def __init__(self, lowered: Callable[[], str]) -> None:
        self.path = _path(lowered)
        self.counts = {} if self.path is None else _read(self.path)

    def of(self, function: Function, count: Callable[[], int]) -> int:
        """The bytes of a variant, counted unless they are known."""
        if self.path is None:
            return count()
        key = digest_of(function.script())
        if key not in self.counts:
            self.counts[key] = count()
            with suppress(OSError):  # of a disk that is full, or a folder that has gone
                write_whole(self.path, json.dumps(self.counts).encode())
        return self.counts[key]


def plans_folder() -> Path | None:
    """The folder of what is known of plans; None where nothing is kept."""
    return kept_folder(_FOLDER)


def _path(lowered: Callable[[], str]) -> Path | None:
    folder = plans_folder()
    return None if folder is None else folder / f"{digest_of(f'{versions()} {lowered()}')}.json"


def _read(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    is_known = isinstance(found, dict) and all(type(count) is int for count in found.values())
    return found if is_known else {}
