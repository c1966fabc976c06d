"""Tables and counts as people look at them: as text, and as HTML in a notebook."""

from collections.abc import Sequence
from html import escape
from typing import TypeAlias

Rows: TypeAlias = Sequence[Sequence[str]]  # the titles first


def aligned(rows: Rows) -> list[str]:
    """The lines of a table: columns of one width, but for the last."""
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]


def html_table(rows: Rows) -> str:
    """The table for a notebook, in the colours of its page, its columns apart."""
    titles, *others = rows
    cells = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in others
    )
    apart = "border-collapse:separate;border-spacing:1em 0.1em;white-space:nowrap"
    return f"<table style='{apart}'><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def html_lines(lines: Sequence[str]) -> str:
    """Lines of text for a notebook, one below the other."""
    return "".join(f"<div>{escape(line)}</div>" for line in lines)


def shown_bytes(count: int) -> str:
    """Bytes as a person reads them."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def shown_flops(count: int) -> str:
    """Operations on numbers as a person reads them."""
    for unit, scale in (("Gflop", 10**9), ("Mflop", 10**6), ("kflop", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} flop"
