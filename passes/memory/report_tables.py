"""Reports of memory as people look at them: as text, and as HTML in a notebook."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

_LEVELS = " ▁▂▃▄▅▆▇█"
_WIDTH = 72  # characters of a plot
_BARS = 160  # of a plot in HTML
_UNFOLDED = 12  # rows of a table in HTML

Rows = Sequence[Sequence[str]]  # the titles first
Lives = Mapping[str, Sequence[int]]  # bytes that are live, step by step, by what the plot is called


def as_text(head: Sequence[str], rows: Rows, foot: Sequence[str], lives: Lives) -> str:
    """The lines above a table, the table, the lines below, and what is live as bars."""
    most = max((max(live, default=0) for live in lives.values()), default=0)
    width = max(map(len, lives), default=0)
    plots = [
        f"{name:<{width}}  {_plot(live, most)}  at most {shown_bytes(max(live, default=0))}"
        for name, live in lives.items()
    ]
    return "\n".join([*head, "", *_aligned(rows), "", *foot, "", *plots])


def as_html(head: Sequence[str], rows: Rows, foot: Sequence[str], lives: Lives) -> str:
    """The same for a notebook, in the colours of its page; many rows are folded but for a few."""
    titles, *others = rows
    few, more = others[:_UNFOLDED], others[_UNFOLDED:]
    table = _table(titles, few)
    if more:
        table += f"<details><summary>{len(more)} more</summary>{_table(titles, more)}</details>"
    most = max((max(live, default=0) for live in lives.values()), default=0)
    plots = "".join(
        f"<figure style='margin:0 0 0.5em'><figcaption>{escape(name)}, at most "
        f"{shown_bytes(max(live, default=0))}</figcaption>{_bars(live, most)}</figure>"
        for name, live in lives.items()
    )
    lines = ["".join(f"<div>{escape(line)}</div>" for line in part) for part in (head, foot)]
    return f"<div>{lines[0]}<div style='overflow-x:auto'>{table}</div>{lines[1]}{plots}</div>"


def _table(titles: Sequence[str], rows: Rows) -> str:
    """In HTML: only the last column breaks its lines."""
    left, apart = "text-align:left", "white-space:nowrap;padding-right:1em"
    head = "".join(f"<th style='{left}'>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='{left};{apart}'>{escape(cell)}</td>" for cell in row[:-1])
        + f"<td style='{left}'>{escape(row[-1])}</td></tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def counted(values: int) -> str:
    return f"{values} value{'' if values == 1 else 's'}"


def shown_bytes(count: int) -> str:
    """Bytes as a person reads them."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def shown_flops(count: int) -> str:
    for unit, scale in (("Gflop", 10**9), ("Mflop", 10**6), ("kflop", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} flop"


def _aligned(rows: Rows) -> list[str]:
    """Columns of one width, but for the last."""
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]


def _plot(sizes: Sequence[int], most: int) -> str:
    """A line of bars, each the most of its stretch, the highest level for `most`."""
    peaks = _peaks(sizes, _WIDTH)
    return "".join(_LEVELS[-(-peak * (len(_LEVELS) - 1) // max(most, 1))] for peak in peaks)


def _bars(sizes: Sequence[int], most: int) -> str:
    peaks = _peaks(sizes, _BARS)
    heights = [40 * peak / max(most, 1) for peak in peaks]
    bars = "".join(
        f"<rect x='{x * 4}' y='{40 - height:.1f}' width='4' height='{height:.1f}'/>"
        for x, height in enumerate(heights)
    )
    return (
        f"<svg viewBox='0 0 {4 * len(peaks)} 40' preserveAspectRatio='none' width='100%' "
        f"height='40' fill='currentColor' opacity='0.6'>{bars}</svg>"
    )


def _peaks(sizes: Sequence[int], width: int) -> list[int]:
    """The most of each of at most so many stretches."""
    count = min(width, len(sizes))
    places = [len(sizes) * i // count for i in range(count + 1)] if count else []
    return [max(sizes[a:b]) for a, b in pairwise(places)]
