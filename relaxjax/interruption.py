"""An interruption of the command `relaxjax` where Python would show or lose it.

While the command is still being imported, which takes a second, nothing of it runs yet to meet it,
so Python would show where in the imports it was. And what falls into a function that Python calls
by itself, as JAX's when garbage is collected, Python tells of and then goes on.
"""

import _thread
import os
import signal
import sys
import time
from pathlib import Path
from types import TracebackType

INTERRUPTED = 130  # the exit code, as of a program that a shell interrupts
_LATER = 0.01  # seconds, by which what Python has called by itself has mostly ended


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


def once_more(ignored: "sys.UnraisableHookArgs") -> None:
    """Interrupt again what an interruption was lost in; Python runs that in its main thread."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_later, (_thread.get_ident(),))
    else:
        sys.__unraisablehook__(ignored)


def _interrupt_later(thread: int) -> None:
    time.sleep(_LATER)
    if hasattr(signal, "pthread_kill"):  # which ends what waits, too
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _thread.interrupt_main()


if _is_the_command():
    sys.excepthook = _end_quietly
    sys.unraisablehook = once_more
