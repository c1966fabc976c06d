"""Script text that knows how to show itself: in colour on a terminal, as HTML in a notebook."""

import html
import os
import sys
from typing import Any, Literal, TextIO, TypeAlias

Style: TypeAlias = Literal["bold", "faint", "red", "green", "yellow", "cyan"]
_CODES: dict[Style, int] = {
    "bold": 1, "faint": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36,
}  # fmt: skip


def wants_colours(stream: TextIO) -> bool:
    """Whether text is coloured there: on a terminal, or anywhere where FORCE_COLOR is set.

    The variable NO_COLOR in the environment, if it is not empty, keeps all plain.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def painted(text: str, style: Style, stream: TextIO | None = None) -> str:
    """The text in a colour of the terminal, where the stream is one; the standard output's else."""
    if not text or not wants_colours(stream or sys.stdout):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


class ScriptText(str):
    """Script text. It is an ordinary string, which can also show itself."""

    __slots__ = ()

    def show(self, style: str = "ansi", stream: TextIO | None = None) -> None:
        """Print the text, in colour where the output is a terminal and pygments is installed.

        The output is `stream`, or the standard output.

        The variable NO_COLOR in the environment, if it is not empty, keeps it plain, and
        FORCE_COLOR colours what goes into a file or to another program, too.
        """
        output = stream or sys.stdout
        coloured = self.ansi(style) if wants_colours(output) else None
        print(self if coloured is None else coloured, file=output)

    def ansi(self, style: str = "ansi") -> str | None:
        """The text with terminal colours, or None where pygments is not installed.

        `style` is "ansi" for the colours that the terminal itself has, "light", "dark", or the
        name of a style of pygments.
        """
        pygments = _pygments()
        if pygments is None:
            return None
        if style == "ansi":
            return _highlight(self, pygments.formatters.TerminalFormatter())
        name = _STYLES.get(style, style)
        try:
            formatter = pygments.formatters.Terminal256Formatter(style=name)
        except pygments.util.ClassNotFound:
            raise ValueError(
                f'there is no style `{style}`: write "ansi", "light", "dark" or one of pygments\' '
                f"own: {', '.join(pygments.styles.get_all_styles())}"
            ) from None
        return _highlight(self, formatter)

    def html(self) -> str:
        """The text as a piece of HTML that needs no style sheet."""
        pygments = _pygments()
        if pygments is None:
            return f"<pre>{html.escape(self)}</pre>"
        return _highlight(self, pygments.formatters.HtmlFormatter(noclasses=True))

    def _repr_html_(self) -> str:
        return self.html()


_STYLES = {"light": "friendly", "dark": "monokai"}


def _pygments() -> Any:
    """The module pygments with its parts loaded, None where it is not installed."""
    try:
        import pygments.formatters
        import pygments.lexers
        import pygments.styles
        import pygments.util
    except ImportError:
        return None
    return pygments


def _highlight(text: str, formatter: Any) -> str:
    pygments = _pygments()
    lexer = pygments.lexers.PythonLexer(stripnl=False, ensurenl=False)
    return str(pygments.highlight(text, lexer, formatter))
