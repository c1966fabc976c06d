"""The command `relaxjax` itself: it runs the command asked for, and reports what goes wrong."""

import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper

from relaxjax.interruption import INTERRUPTED
from relaxjax.ir.highlight import painted

from .failure import InputError, described, plain_warnings
from .parser import parsed


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # one of the process, in the encoding of a console
            stream.reconfigure(errors="replace")
    try:
        with plain_warnings():
            return _done(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as error:
        print(": ".join(["relaxjax: interrupted", *map(str, error.args)]), file=sys.stderr)
        return INTERRUPTED


def _done(argv: list[str]) -> int:
    """The exit code of a command, which is imported when the line is parsed."""
    args = parsed(argv)
    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python flushes the output once more at its end, and must not find the broken pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if args.traceback:
            traceback.print_exception(error)
        title = painted("relaxjax: error:", "red", sys.stderr)
        print(f"{title} {described(error)}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
