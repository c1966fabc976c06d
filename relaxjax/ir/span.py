"""Where in the user's own text a node comes from, and how an error says so."""

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text: lines count from 1, columns from 0, as in `ast`."""

    file: str
    line: int
    column: int = 0
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        return f"{self.shown_file}:{self.line}:{self.column + 1}"

    @property
    def shown_file(self) -> str:
        """The file as its user knows it: a cell of a notebook by its number, such as `In[3]`."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        cell = None if shell is None else shell.compile.format_code_name(self.file)
        return self.file if cell is None else str(cell[1])

    def source_line(self) -> str:
        """The first line of the stretch, empty where the source cannot be found."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def excerpt(self) -> str:
        """The location, and below it the source line with carets under the stretch."""
        line = self.source_line()
        if not line.strip():
            return f"  at {self}"
        same_line = self.end_column is not None and self.end_line in (None, self.line)
        end = self.end_column if same_line and self.end_column is not None else len(line)
        indent = len(line) - len(line.lstrip())
        start = max(self.column, indent)
        carets = " " * (start - indent) + "^" * max(1, end - start)
        return f"  at {self}\n    {line.strip()}\n    {carets}"


def excerpt_of(span: Span | None) -> str:
    """The excerpt on lines of its own, to follow other text; none where the place is not known."""
    return f"\n{span.excerpt()}" if span else ""


def short_place(span: Span | None) -> str:
    """A place as a cell of a table shows it: the file without its folder, and the line."""
    return "-" if span is None else f"{Path(span.shown_file).name}:{span.line}"


class located:  # noqa: N801  # it reads as a word after `with`
    """Add the user's location to any exception raised inside, once: the innermost wins."""

    __slots__ = ("span",)

    def __init__(self, span: Span | None) -> None:
        self.span = span

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception):
            add_location(error, self.span)


def add_location(error: BaseException, span: Span | None) -> None:
    if span is None or getattr(error, "relax_span", None) is not None:
        return
    error.relax_span = span  # type: ignore[attr-defined]  # marks the note as given
    error.add_note(span.excerpt())
