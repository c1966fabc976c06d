"""Two texts beside each other, or one after the other where there is no room."""

import textwrap
from itertools import zip_longest

GAP = " | "
NARROWEST = 60  # a column of script narrower than this is all broken lines
LEAST_WIDTH = 2 * NARROWEST + len(GAP)  # in which there is room for two


def side_by_side(left: str, right: str, width: int, align: str = "") -> str:
    """The texts in two columns of equal width; one after the other where `width` is too small.

    The first lines that contain `align` stand beside each other.
    """
    column = (width - len(GAP)) // 2
    if width < LEAST_WIDTH:
        return "\n".join([*_wrapped(left, width), "", *_wrapped(right, width)])
    columns = [_wrapped(text, column) for text in (left, right)]
    places = [next((i for i, line in enumerate(c) if align in line), 0) for c in columns]
    for lines, place in zip(columns, places, strict=True):
        lines[place:place] = [""] * (max(places) - place)
    rows = zip_longest(*columns, fillvalue="")
    return "\n".join(f"{a:<{column}}{GAP}{b}".rstrip() for a, b in rows)


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a script; a line that is too long goes on below, indented deeper."""
    lines: list[str] = []
    for line in text.splitlines():
        deeper = " " * (len(line) - len(line.lstrip()) + 8)
        lines += textwrap.wrap(line, width, subsequent_indent=deeper) or [""]
    return lines
