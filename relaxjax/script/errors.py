"""The error of a script: it points at the user's own text."""

from typing import Any

from relaxjax.ir.span import Span


class ScriptError(SyntaxError):
    """A script says what Relax cannot say, or says it wrongly.

    It is a `SyntaxError`, so Python itself shows the line with carets under the place. `mend` says
    what to write instead.
    """

    def __init__(self, message: str, span: Span | None = None, mend: str | None = None) -> None:
        if span is None:
            super().__init__(message)
        else:
            super().__init__(message, _details(span))
        self.span = span
        self.mend = mend
        if mend is not None:
            self.add_note(mend)

    def __reduce__(self) -> Any:
        return ScriptError, (self.msg, self.span, self.mend)


def _details(span: Span) -> tuple[str, int, int, str, int, int]:
    """The place as `SyntaxError` takes it: columns count from 1, and no carets go past the line."""
    line = span.source_line()
    ends_here = span.end_line in (None, span.line) and span.end_column is not None
    end = span.end_column if ends_here and span.end_column is not None else len(line)
    return (span.file, span.line, span.column + 1, line, span.line, end + 1)
