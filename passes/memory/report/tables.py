"""Reports of memory as people look at them: as text, and as HTML in a notebook."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from relaxjax.ir.tables import Rows, aligned, html_lines, html_table, shown_bytes

_LEVELS = " ▁▂▃▄▅▆▇█"
_WIDTH = 72  # characters of a plot
_BARS = 160  # of a plot in HTML
_UNFOLDED = 12  # rows of a table in HTML

Lives = Mapping[str, Sequence[int]]  # bytes that are live, step by step, by what the plot is called


def as_text(head: Sequence[str], rows: Rows, foot: Sequence[str], lives: Lives) -> str:
    """The lines above a table, the table, the lines below, and what is live as bars."""
    most = max((max(live, default=0) for live in lives.values()), default=0)
    width = max(map(len, lives), default=0)
    plots = [
        f"{name:<{width}}  {_plot(live, most)}  at most {shown_bytes(max(live, default=0))}"
        for name, live in lives.items()
    ]
    return "\n".join([*head, "", *aligned(rows), "", *foot, "", *plots])


def as_html(head: Sequence[str], rows: Rows, foot: Sequence[str], lives: Lives) -> str:
    """The same for a notebook, in the colours of its page; many rows are folded but for a few."""
    titles, *others = rows
    few, more = others[:_UNFOLDED], others[_UNFOLDED:]
    table = html_table([titles, *few])
    if more:
        rest = html_table([titles, *more])
        table += f"<details><summary>{len(more)} more</summary>{rest}</details>"
    most = max((max(live, default=0) for live in lives.values()), default=0)
    plots = "".join(
        f"<figure style='margin:0 0 0.5em'><figcaption>{escape(name)}, at most "
        f"{shown_bytes(max(live, default=0))}</figcaption>{_bars(live, most)}</figure>"
        for name, live in lives.items()
    )
    wide = f"<div style='overflow-x:auto'>{table}</div>"
    return f"<div>{html_lines(head)}{wide}{html_lines(foot)}{plots}</div>"


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
