"""An interruption of the command `relaxjax` while it is still being imported, which takes a second.

Nothing of the command runs yet then to meet it, so Python would show where in the imports it was.
"""

import os
import sys
from pathlib import Path
from types import TracebackType

INTERRUPTED = 130  # the exit code, as of a program that a shell interrupts


def _is_the_command() -> bool:
    """Whether this process was started as `relaxjax`, or as `python -m relaxjax`."""
    if sys.argv[:1] == ["-m"]:  # while Python looks for the module
        place = sys.orig_argv.index("-m") + 1
        return sys.orig_argv[place : place + 1] == [__package__]
    return bool(sys.argv) and Path(sys.argv[0]).name.removesuffix(".exe") == __package__


def _end_quietly(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    print("relaxjax: interrupted", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)  # Python would end by the signal


if _is_the_command():
    sys.excepthook = _end_quietly
