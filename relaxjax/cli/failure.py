"""Errors as the command line shows them: a sentence, the place, and no traceback."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from relaxjax.ir.highlight import painted
from relaxjax.ir.span import Span

_PACKAGE = Path(__file__).parents[1]

_OF_JAX = "-" * 20  # begins what JAX says of frames that a traceback lacks; none is shown


class InputError(Exception):
    """What the user gave is wrong; the message is all there is to show."""


@contextmanager
def bad_input() -> Iterator[None]:
    """Take any error raised inside to be the fault of what the user gave."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(described(error)) from error


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show what is warned of in a line, without the line of our own code where Python found it."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category is UserWarning and Path(filename).is_relative_to(_PACKAGE):
                title = painted("relaxjax: warning:", "yellow", sys.stderr)
                print(f"{title} {message}", file=sys.stderr)
            else:  # at a line of the user's, or not of ours
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def described(error: Exception) -> str:
    """The message of an error, then the source line with carets, then its notes."""
    notes = [note for note in getattr(error, "__notes__", []) if not note.startswith(_OF_JAX)]
    return "\n".join([_message(error), *_place(error), *notes])


def _message(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    if isinstance(error, OSError) and error.filename is not None:
        return f"`{error.filename}`: {error.strerror}"
    if isinstance(error, KeyError) and error.args:
        # A KeyError shows its message in quotes, as if it were a key.
        return str(error.args[0])
    return str(error) or type(error).__name__


def _place(error: Exception) -> Iterator[str]:
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        start = max(0, (error.offset or 1) - 1)
        end = error.end_offset - 1 if error.end_offset and error.end_offset > start + 1 else None
        yield Span(error.filename, error.lineno, start, error.end_lineno, end).excerpt()
