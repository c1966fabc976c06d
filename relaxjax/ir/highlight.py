"""Script text that knows how to show itself: in colour on a terminal, as HTML in a notebook."""

import html
import os
import sys
from typing import Any


class ScriptText(str):
    """Script text. It is an ordinary string, which can also show itself."""

    __slots__ = ()

    def show(self, style: str = "ansi") -> None:
        """Print the text, in colour where the output is a terminal and pygments is installed.

        The variable NO_COLOR in the environment, if it is not empty, keeps it plain.
        """
        wants_colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        coloured = self.ansi(style) if wants_colours else None
        print(self if coloured is None else coloured)

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
